"""Keeping tables healthy: compaction, purging of deleted rows, removal of old files."""

from delta_pipelines.maintenance.result import MaintenanceResult, TableMaintenance

__all__ = ["MaintenanceResult", "TableMaintenance"]
