"""Keeping tables healthy: compaction, purging of deleted rows, removal of old files."""

from delta_pipelines.model.maintenance_result import MaintenanceResult, TableMaintenance

__all__ = ["MaintenanceResult", "TableMaintenance"]
