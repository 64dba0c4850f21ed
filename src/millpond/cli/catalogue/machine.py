"""What ``up``, ``down`` and ``db`` say."""

from __future__ import annotations

MACHINE: dict[str, tuple[str, str]] = {
    "option.sim": (
        "Simulated pool: nodes x cards x model (8x8xA800-80GB), or a file with nodes; none: this machine's cards.",
        "模拟资源池：节点数x卡数x型号（8x8xA800-80GB），或含 nodes 的文件；none 表示使用本机的卡。",
    ),
    "option.state_dir": ("Where everything is kept (MILLPOND_STATE_DIR).", "状态目录（MILLPOND_STATE_DIR）。"),
    "option.host": ("Address to listen on (127.0.0.1).", "监听地址（默认 127.0.0.1）。"),
    "option.port": ("Port to listen on (8900); 0: a free one.", "监听端口（默认 8900）；0 表示任选空闲端口。"),
    "option.isolation": (
        "How jobs are kept apart: auto, bubblewrap or none.",
        "作业隔离方式：auto、bubblewrap 或 none。",
    ),
    "option.foreground": ("Stay in the foreground (for systemd).", "在前台运行（供 systemd 使用）。"),
    "option.replace_pool": (
        "Let a new --sim take away nodes that jobs sit on; they are evicted.",
        "允许新的 --sim 移除仍有作业的节点；这些作业会被驱逐并重新排队。",
    ),
    "option.keep_jobs": (
        "Leave running jobs alone; the next up finds them.",
        "不停止正在运行的作业；下次 up 会接管它们。",
    ),
    "option.grace": ("Longest grace of jobs, seconds.", "作业的最长宽限时间（秒）。"),
    "help.db.upgrade": ("Bring the database to this program's version.", "将数据库升级到本程序的版本。"),
    "help.db.check": ("Check schema and event chains.", "检查数据库结构和事件链。"),
    "help.db.backup": ("Write a backup of the database to a file.", "将数据库备份到文件。"),
    "help.db.restore": (
        "Read a backup into an empty database; millpond must be down.",
        "将备份读入空数据库；必须先停止 millpond。",
    ),
    "up.started": ("millpond is up at {address}", "millpond 已启动：{address}"),
    "up.adopted": ("millpond is running already at {address} (pid {pid})", "millpond 已在运行：{address}（pid {pid}）"),
    "up.pool": ("pool      {pool}", "资源池    {pool}"),
    "up.pool_simulated": ("{label} (simulated)", "{label}（模拟）"),
    "up.pool_real": ("this machine", "本机"),
    "up.token": ("token     {path}", "令牌      {path}"),
    "up.state": ("state     {path}", "状态目录  {path}"),
    "up.try": ("Try:", "试一试："),
    "down.stopped": ("millpond is down", "millpond 已停止"),
    "down.kept": (
        "millpond is down; running attempts left alone: {count}",
        "millpond 已停止；保留了 {count} 个运行中的作业",
    ),
    "down.evicted": (
        "running attempts asked to leave, their jobs queued again: {count}",
        "已让 {count} 个运行中的作业退出；它们会重新排队",
    ),
    "down.nothing": ("nothing was running", "没有正在运行的 millpond"),
    "db.upgraded": ("the schema is at {version}", "数据库结构版本：{version}"),
    "db.sound": ("the database is sound", "数据库完好"),
    "db.backed_up": ("backup written to {path}", "备份已写入 {path}"),
    "db.restored": ("restored from {path}; start with: millpond up", "已从 {path} 恢复；启动：millpond up"),
}
