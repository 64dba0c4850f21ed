"""What commands are for.  The first line stands in lists of commands; the rest is shown by ``--help``."""

from __future__ import annotations

HELPS: dict[str, tuple[str, str]] = {
    "help.millpond": (
        (
            "millpond: one pool of GPU cards, many tenants, nobody's work lost.\n"
            "Start here: millpond up, then millpond run --gpu 1 -- python train.py"
        ),
        (
            "millpond：多租户共享的 GPU 卡池，谁的工作都不会丢。\n"
            "从这里开始：millpond up，然后 millpond run --gpu 1 -- python train.py"
        ),
    ),
    "help.usage": ("Usage:", "用法："),
    "help.options": ("Options", "选项"),
    "help.global_options": ("Options of every command", "通用选项"),
    "help.verbs": ("Verbs ({default} if none is given)", "动词（缺省为 {default}）"),
    "help.section_jobs": ("Jobs", "作业"),
    "help.section_pool": ("The pool", "卡池"),
    "help.section_money": ("Card-hours and money", "卡时与费用"),
    "help.section_people": ("People", "用户"),
    "help.section_offline": ("Looking ahead", "推演"),
    "help.section_machine": ("This machine", "本机"),
    "help.run": (
        (
            "Submit a job and follow it.\n"
            "Examples: millpond run --gpu A800:1 --name x -- python train.py, or: millpond run job.yaml. Flags win "
            "over the file. Ctrl-C asks whether to detach or to stop the job; a second one detaches. Exits as it does."
        ),
        (
            "提交作业并跟踪它。\n"
            "例如：millpond run --gpu A800:1 --name x -- python train.py，或 millpond run job.yaml。选项优先于文件。"
            "按 Ctrl-C 可选择脱离或停止作业，再按一次即脱离。退出码与作业一致。"
        ),
    ),
    "help.apply": (
        "Submit the job in a file.\nPrints its id. FILE may be - for standard input.",
        "提交文件中的作业。\n输出作业编号。FILE 可以是 -，表示标准输入。",
    ),
    "help.offer": (
        (
            "Ask what would happen to a job, without submitting it.\n"
            "Takes what run takes; a command is not needed: millpond offer --gpu A800:8 --nodes 2"
        ),
        "询问作业若现在提交会怎样，但不提交。\n参数与 run 相同，可以没有命令：millpond offer --gpu A800:8 --nodes 2",
    ),
    "help.ps": (
        "List jobs: mine and live, unless asked for more.",
        "列出作业：默认是我的、未结束的。",
    ),
    "help.why": (
        "Say why a job waits: every reason, with its numbers.",
        "说明作业为何等待：列出全部原因和数字。",
    ),
    "help.describe": (
        "Show everything about a job: attempts, events, where and why.",
        "显示作业的全部信息：各次运行、事件、位置和原因。",
    ),
    "help.logs": (
        "Show a job's output.\nOf its last attempt; with -f of every attempt, until the job ends.",
        "显示作业输出。\n默认是最近一次运行；加 -f 则跟踪每次运行直到作业结束。",
    ),
    "help.attach": (
        "Follow a job's output from now on; Ctrl-C detaches.",
        "从现在起跟踪作业输出；Ctrl-C 脱离。",
    ),
    "help.exec": (
        (
            "Run a command beside a running job.\n"
            "Example: millpond exec train -- nvidia-smi. Without a command: a shell. Exits with the command's own code."
        ),
        "在运行中的作业旁执行命令。\n例如：millpond exec train -- nvidia-smi。不写命令则打开 shell。退出码与命令一致。",
    ),
    "help.wait": (
        "Wait until jobs have ended; exits as they did.\n0 succeeded, 1 failed or timed out, 3 cancelled.",
        "等待作业结束，退出码与作业一致。\n0 成功，1 失败或超时，3 已取消。",
    ),
    "help.stop": (
        "Stop jobs: warning, then TERM, then KILL when the grace ends.",
        "停止作业：先警告，再 TERM，宽限期到则 KILL。",
    ),
    "help.hold": ("Keep waiting jobs from starting.", "暂扣等待中的作业，使其不启动。"),
    "help.release": ("Let held jobs start again.", "放行被暂扣的作业。"),
    "help.queue": (
        "Show queues with their use, and who runs and waits.\nLEAF narrows it to one queue, such as factor/batch.",
        "显示队列用量，以及谁在运行、谁在等待。\nLEAF 只看一个队列，例如 factor/batch。",
    ),
    "help.quota": ("Show or change who may use how much.", "查看或修改配额。"),
    "help.quota.show": ("Show the limits of every queue, as they are in force.", "显示各队列当前生效的配额。"),
    "help.quota.apply": (
        (
            "Put the queues of a file in force.\n"
            "Shows the difference and asks. The file is the whole set: what is not in it is removed."
        ),
        "让文件中的队列配置生效。\n先显示差异并确认。文件即全集：不在其中的队列会被删除。",
    ),
    "help.nodes": ("Show nodes; cordon, drain and repair them.", "查看节点；停用、排空、修复。"),
    "help.nodes.list": ("List nodes with what is taken of them.", "列出节点及其用量。"),
    "help.nodes.cordon": ("Let nothing new start on a node.", "停用节点：不再启动新作业。"),
    "help.nodes.uncordon": ("Let jobs start on a node again.", "恢复节点：可以启动作业。"),
    "help.nodes.drain": (
        "Cordon a node and ask its jobs to leave; they continue elsewhere.",
        "停用节点并请其上的作业离开，它们会在别处继续。",
    ),
    "help.nodes.fault": ("Lose a simulated node on purpose.", "故意使模拟节点失联。"),
    "help.nodes.repair": ("Bring a simulated node back.", "恢复模拟节点。"),
    "help.cards": ("Show cards and who is on them; repair them.", "查看卡及其占用者；修复。"),
    "help.cards.list": ("List cards: model, health, share in use, jobs.", "列出卡：型号、健康、用量、作业。"),
    "help.cards.fault": ("Break a simulated card on purpose.", "故意使模拟卡故障。"),
    "help.cards.repair": ("Take a card out of quarantine.", "解除卡的隔离。"),
    "help.login": (
        (
            "Save a server's address and token.\n"
            "Example: millpond login --server https://pool.example:8900. Asks for the token, or reads it from stdin."
        ),
        "保存服务器地址和令牌。\n例如：millpond login --server https://pool.example:8900。会询问令牌，或从标准输入读取。",
    ),
    "help.logout": ("Forget what login saved.", "删除 login 保存的信息。"),
    "help.whoami": ("Show whose token is used, and for which server.", "显示当前令牌的用户和服务器。"),
    "help.tenants": ("Manage tenants, their projects and members.", "管理租户及其项目和成员。"),
    "help.tenants.list": ("List tenants.", "列出租户。"),
    "help.tenants.create": (
        "Create a tenant; give it queues with quota apply.",
        "创建租户；用 quota apply 为其配置队列。",
    ),
    "help.tenants.delete": ("Delete a tenant without live jobs.", "删除没有未结束作业的租户。"),
    "help.tenants.projects": ("Manage projects of a tenant.", "管理租户的项目。"),
    "help.tenants.projects.list": ("List projects.", "列出项目。"),
    "help.tenants.projects.create": ("Create a project.", "创建项目。"),
    "help.tenants.projects.delete": ("Delete a project without live jobs.", "删除没有未结束作业的项目。"),
    "help.tenants.members": ("Manage members of a tenant.", "管理租户的成员。"),
    "help.tenants.members.list": ("List members and their roles.", "列出成员及角色。"),
    "help.tenants.members.add": ("Give a user a role, or another one.", "授予或更改用户的角色。"),
    "help.tenants.members.remove": ("Take a user's role away.", "移除用户的角色。"),
    "help.tokens": ("Manage tokens.", "管理令牌。"),
    "help.tokens.list": ("List tokens; secrets are never shown again.", "列出令牌；密文不会再次显示。"),
    "help.tokens.create": (
        "Create a token; its secret is printed once, on stdout.",
        "创建令牌；密文只在标准输出显示一次。",
    ),
    "help.tokens.revoke": ("Revoke a token at once.", "立即吊销令牌。"),
    "help.snapshot": (
        "Snapshots of the scheduler's world, for plan and simulate.",
        "调度快照，供 plan 和 simulate 使用。",
    ),
    "help.snapshot.export": (
        "Export the live world: every tenant's queues and jobs.",
        "导出当前状态：所有租户的队列和作业。",
    ),
    "help.snapshot.convert": (
        "Make a snapshot file of a trace: openb, Philly-like CSV, sacct --parsable2, kubectl get pods,nodes -o json.",
        "把负载记录转换为快照文件：openb、Philly 类 CSV、sacct --parsable2，或 kubectl get pods,nodes -o json。",
    ),
    "help.plan": ("Plan a snapshot file: what would start, wait, leave.", "对快照文件做一次调度：谁启动、等待、让出。"),
    "help.simulate": (
        (
            "Run a workload in virtual time, and what-if variants of it beside it.\n"
            "FILE is a snapshot, or a trace: openb, Philly-like CSV, sacct --parsable2, Kubernetes JSON; or .xz, .gz.\n"
            "millpond simulate pool.yaml --case 'more: queues.factor/batch.cap=48, nodes.+2' --report what-if.html"
        ),
        (
            "在虚拟时间中推演负载，并可与假设方案并行对比。\n"
            "FILE 是快照或负载记录：openb、Philly 类 CSV、sacct --parsable2、Kubernetes JSON；也可为 .xz 或 .gz。\n"
            "millpond simulate pool.yaml --case '扩容: queues.factor/batch.cap=48, nodes.+2' --report what-if.html"
        ),
    ),
    "help.rate": (
        (
            "Check a bill: facts and prices in a file into lines, alarms and an invoice.\n"
            "FILE is YAML or JSON lines (or .gz, .xz, - for standard input); Needs no server."
        ),
        (
            "核对账单：由文件中的事实和价格算出明细、告警和账单。\n"
            "FILE 为 YAML 或 JSON lines（也可为 .gz、.xz，- 表示标准输入）。无需服务器。"
        ),
    ),
    "help.up": ("Start millpond on this machine.", "在本机启动 millpond。"),
    "help.down": ("Stop the millpond of this machine.", "停止本机的 millpond。"),
    "help.db": ("Upgrade, check, back up and restore the database.", "升级、检查、备份和恢复数据库。"),
    "help.version": ("Show the version of this program and of the server.", "显示本程序和服务器的版本。"),
    "help.completion": (
        'Print a completion script for your shell.\nFor bash: eval "$(millpond completion bash)"',
        '输出 shell 补全脚本。\nbash 中：eval "$(millpond completion bash)"',
    ),
}
