package delta_pipelines;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log on S3 for several writers: a commit is created with the condition that its file does
 * not exist (`If-None-Match: *`), so of two writers of one version, one gets a conflict.
 *
 * The language is what Janino compiles: no lambdas, raw types.
 */
public class S3LogStore extends io.delta.storage.HadoopFileSystemLogStore {
    private static final String CONDITION = "fs.option.create.conditional.overwrite";
    private static final int ATTEMPTS = 5;

    public S3LogStore(Configuration settings) {
        super(settings);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration settings)
            throws IOException {
        FileSystem files = path.getFileSystem(settings);
        StringBuilder lines = new StringBuilder();
        while (actions.hasNext()) {
            lines.append((String) actions.next()).append("\n");
        }
        byte[] content = lines.toString().getBytes(StandardCharsets.UTF_8);
        if (overwrite.booleanValue()) {
            put(files.create(path, true), content);
            return;
        }
        for (int attempt = 1;; attempt++) {
            try {
                FSDataOutputStreamBuilder builder = files.createFile(path);
                builder.overwrite(false);
                builder.must(CONDITION, "true");
                builder.recursive();
                put((FSDataOutputStream) builder.build(), content);
                return;
            } catch (IOException error) {
                byte[] found = contentOf(files, path);
                if (found != null && Arrays.equals(found, content)) {
                    return; // The answer to an earlier attempt of this write was lost.
                }
                if (found != null) {
                    throw new FileAlreadyExistsException(path.toString());
                }
                // S3 also refuses a write while another one of the same file is under way (409),
                // and the other one may fail.
                if (!isRefusal(error) || attempt == ATTEMPTS) {
                    throw error;
                }
            }
        }
    }

    public Boolean isPartialWriteVisible(Path path, Configuration settings) {
        return Boolean.FALSE;
    }

    private static void put(FSDataOutputStream stream, byte[] content) throws IOException {
        stream.write(content);
        stream.close();
    }

    private static boolean isRefusal(IOException error) {
        return error.getClass().getSimpleName().equals("RemoteFileChangedException");
    }

    private static byte[] contentOf(FileSystem files, Path path) throws IOException {
        FSDataInputStream stream;
        try {
            stream = files.open(path);
        } catch (FileNotFoundException error) {
            return null;
        }
        try {
            return stream.readAllBytes();
        } finally {
            stream.close();
        }
    }
}
