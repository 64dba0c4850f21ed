"""What `invoice` says."""

from __future__ import annotations

INVOICES: dict[str, tuple[str, str]] = {
    "help.invoice": (
        (
            "Draft, issue and close invoices, and say what a line was made of.\n"
            "An issued invoice never changes: faults are credited with notes of their own. Numbers have no gaps."
        ),
        "起草、开具和结账，并说明每一行账单的来源。\n已开具的账单永不修改：故障退款另开贷项单。编号连续无缺号。",
    ),
    "help.invoice.list": ("List issued invoices, the newest first.", "列出已开具的账单，最新的在前。"),
    "help.invoice.draft": (
        "Show what the invoice of a month would be now.\nNothing is stored: the same code issues it later.",
        "显示某月账单现在会是怎样。\n不会保存任何内容：之后开具账单用的是同一段程序。",
    ),
    "help.invoice.show": ("Show an invoice with its lines and credit notes.", "显示一张账单及其明细和贷项单。"),
    "help.invoice.issue": (
        "Close a month of one tenant and issue its invoice.\nDoing it again gives the same invoice.",
        "为一个租户结账并开具账单。\n重复执行得到同一张账单。",
    ),
    "help.invoice.close": (
        (
            "Close a month of every account and issue the invoices.\n"
            "Doing it again, or after a crash, gives the same invoices without gaps. What hinders one account does "
            "not hinder others."
        ),
        "为所有账户结账并开具账单。\n重复执行或崩溃后重跑，账单相同且编号无缺号。某个账户受阻不影响其他账户。",
    ),
    "help.invoice.pay": ("Book a payment of an invoice.", "登记账单付款。"),
    "help.invoice.void": (
        "Take back an invoice on which nothing was paid or credited.\nIts number stays used; issue the month again.",
        "作废一张尚未付款也未退款的账单。\n其编号保留；可重新开具该月账单。",
    ),
    "help.invoice.credit": (
        (
            "Give a line back, whole or in part, for a fault of the platform.\n"
            "Example: millpond invoice credit INV-2026-000001 3 --reason 'card fault' "
            "--from 2026-11-03T10:20:00+08:00 --to 2026-11-03T10:35:00+08:00"
        ),
        (
            "因平台故障退还某一行的全部或部分费用。\n"
            "例如：millpond invoice credit INV-2026-000001 3 --reason 'card fault' "
            "--from 2026-11-03T10:20:00+08:00 --to 2026-11-03T10:35:00+08:00"
        ),
    ),
    "help.invoice.explain": (
        "Walk from a line to its hourly buckets, attempts, events and price version.",
        "从账单的一行追溯到每小时用量、各次运行、事件和价格版本。",
    ),
    "head.number": ("NUMBER", "编号"),
    "head.period": ("MONTH", "月份"),
    "head.total": ("TOTAL", "合计"),
    "head.issued": ("ISSUED", "开具时间"),
    "head.line": ("LINE", "行号"),
    "head.lines": ("LINES", "行数"),
    "head.unit_price": ("PER CARD-HOUR", "每卡时"),
    "head.net": ("NET", "不含税"),
    "head.tax_amount": ("TAX", "税额"),
    "head.hour": ("HOUR", "小时"),
    "head.booked_in": ("BOOKED IN", "记入"),
    "head.ended_at": ("UNTIL", "结束时间"),
    "head.sequence": ("EVENT", "事件号"),
    "head.hash": ("HASH", "哈希"),
    "field.number": ("Number", "编号"),
    "field.seller": ("Seller", "销售方"),
    "field.paid_amount": ("Paid", "已付"),
    "field.credited": ("Credited", "已退"),
    "field.due": ("Due", "应付"),
    "field.issued": ("Issued", "开具时间"),
    "field.source_hash": ("Made of", "来源哈希"),
    "field.line": ("Line", "行"),
    "field.price_version": ("Price", "价格版本"),
    "field.billed": ("Billed", "计费"),
    "field.added_by": ("Price added by", "价格添加者"),
    "field.sums": ("Adds up", "核对"),
    "state.draft": ("draft", "草稿"),
    "state.issued": ("issued", "已开具"),
    "state.paid": ("paid", "已付清"),
    "state.voided": ("voided", "已作废"),
    "invoice.month": ("The month, such as 2026-11.", "月份，例如 2026-11。"),
    "invoice.state": ("Only in this state.", "仅此状态。"),
    "invoice.all": ("Show every line.", "显示全部行。"),
    "invoice.amount": ("All that is due, unless given.", "不写则为全部应付金额。"),
    "invoice.reference": ("Of the bank or payment service; it counts once.", "银行或支付流水号，只记一次。"),
    "invoice.void_reason": ("Why; it is kept.", "原因，将被保留。"),
    "invoice.credit_reason": ("Why; it stands on the note.", "原因，将写在贷项单上。"),
    "invoice.fault_from": ("When the fault began.", "故障开始时间。"),
    "invoice.fault_to": ("When it ended.", "故障结束时间。"),
    "invoice.fault_hours": ("How much was spoilt, instead of a time.", "受损卡时数，代替时间段。"),
    "invoice.fault_reference": (
        "Name of the fault; the same is credited once.",
        "故障编号；同一故障只退一次。",
    ),
    "invoice.empty": (
        "There are no invoices yet. What would be issued: millpond invoice draft --month YYYY-MM",
        "尚无账单。查看将要开具的内容：millpond invoice draft --month YYYY-MM",
    ),
    "invoice.nothing": (
        "{month} of {tenant} is closed; there was nothing to bill.",
        "{tenant} 的 {month} 已结账；没有可计费的用量。",
    ),
    "invoice.issued": ("{number} is issued: {total}.", "已开具 {number}：{total}。"),
    "invoice.known": (
        "{number} was issued before: {total}. Nothing was changed.",
        "{number} 此前已开具：{total}。没有改动。",
    ),
    "invoice.ask_close": ("Close {month} of every account?", "要为所有账户结 {month} 的账吗？"),
    "invoice.closing": ("Accounts closed: {count}", "已处理账户：{count} 个"),
    "invoice.closed": (
        "{month}: invoices {issued}, accounts with nothing to bill {empty}, not closed {problems}.",
        "{month}：账单 {issued} 张，无可计费用量的账户 {empty} 个，未能结账 {problems} 个。",
    ),
    "invoice.paid": ("A payment of {amount} is booked on {number}.", "已在 {number} 上登记付款 {amount}。"),
    "invoice.ask_void": ("Void {number}? Its number stays used.", "要作废 {number} 吗？其编号将保留。"),
    "invoice.voided": (
        "{number} is voided. Issue {month} again: millpond invoice issue --month {month}",
        "{number} 已作废。重新开具 {month}：millpond invoice issue --month {month}",
    ),
    "invoice.credited": (
        "{note} gives back {hours} card-hours: {net} and {tax} tax.",
        "{note} 退还 {hours} 卡时：{net}，税额 {tax}。",
    ),
    "invoice.rows_hidden": (
        "Only {count} lines are shown; --all shows the others.",
        "只显示 {count} 行；--all 显示全部。",
    ),
    "invoice.unpriced": (
        "No price for {sku} {klass}: {hours} card-hours. Nothing is issued before it has one.",
        "{sku} {klass} 没有价格：{hours} 卡时。这不是免费：定价之前不能开具账单。",
    ),
    "invoice.adds_up": ("The buckets add up to the line.", "各小时用量之和等于本行。"),
    "invoice.differs": ("THE BUCKETS DO NOT ADD UP TO THE LINE.", "各小时用量之和与本行不符。"),
    "invoice.minimum": ("{hours} card-hours of it are a minimum charge.", "其中 {hours} 卡时为最低计费。"),
}
