"""Table maintenance: compact files, purge deleted rows, remove old files."""

from delta_pipelines.model.maintenance_result import MaintenanceResult, TableMaintenance

__all__ = ["MaintenanceResult", "TableMaintenance"]
