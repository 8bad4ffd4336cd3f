"""Writing the data files of file groups: new base files, merged base files, log files."""

from lakedex.write.handles.task import write_groups
from lakedex.write.handles.work import GroupWork, TaskResult, WriteTask, WrittenFile

__all__ = ["GroupWork", "TaskResult", "WriteTask", "WrittenFile", "write_groups"]
