"""What `accounts` and `balance` say."""

from __future__ import annotations

ACCOUNTS: dict[str, tuple[str, str]] = {
    "help.accounts": (
        "Say how tenants pay.\nA tenant without an account is metered and reported, never billed and never held.",
        "设置租户的付费方式。\n没有账户的租户只计量、出报表，不计费，也不冻结余额。",
    ),
    "help.accounts.list": ("List accounts.", "列出账户。"),
    "help.accounts.show": ("Show all settings of an account.", "显示账户的全部设置。"),
    "help.accounts.open": (
        (
            "Open an account: from then on the tenant's use is billed.\n"
            "Example: millpond accounts open alpha --currency CNY --zone Asia/Shanghai --tax-rate 0.06 --mode prepaid"
        ),
        (
            "开立账户：从此租户的用量开始计费。\n"
            "例如：millpond accounts open alpha --currency CNY --zone Asia/Shanghai --tax-rate 0.06 --mode prepaid"
        ),
    ),
    "help.accounts.set": (
        (
            "Change settings; they count for the open month as a whole.\n"
            "The currency stays once something is booked, and the zone once a month is closed."
        ),
        "更改设置；对整个未结账月份生效。\n有记账后币种不可改，有月份结账后时区不可改。",
    ),
    "help.balance": (
        (
            "Show what an account stands at, and add to it.\n"
            "Money is used in this order: vouchers, trial credit, packs, paid money; what expires first goes first."
        ),
        "查看账户余额并充值。\n扣费顺序：代金券、试用金、资源包、充值余额；先到期的先用。",
    ),
    "help.balance.show": (
        "Show the balance, now or as of a moment.\n--tenant says whose.",
        "显示当前或某一时刻的余额。\n用 --tenant 指定租户。",
    ),
    "help.balance.lines": ("List bookings, the last first.", "列出账目明细，最近的在前。"),
    "help.balance.top-up": (
        (
            "Add paid money; what the tenant owes is paid from it first.\n"
            "Each payment has its own reference, and counts once for ever."
        ),
        "充值；先抵扣欠款。\n每笔付款有自己的流水号，只入账一次。",
    ),
    "help.balance.trial": (
        "Give trial credit, once for each verified identity.",
        "发放试用金，每个实名身份一次。",
    ),
    "help.balance.grant": (
        (
            "Give a voucher, or a pack of card-hours or money.\n"
            "Example: millpond balance grant pack --code order-17 --card-hours 100 --price 1000.00 --expires 2027-01-01"
        ),
        (
            "发放代金券或资源包（卡时或金额）。\n"
            "例如：millpond balance grant pack --code order-17 --card-hours 100 --price 1000.00 --expires 2027-01-01"
        ),
    ),
    "help.balance.revoke": (
        "Take back what is left of trial credit or a voucher.",
        "收回剩余的试用金或代金券。",
    ),
    "help.balance.pay": ("Book a payment of what the tenant owes.", "登记租户偿还欠款的付款。"),
    "help.balance.back": (
        "Pay free money back, the last top-up first.\nTrial credit, vouchers and packs are never paid out.",
        "退还未使用的充值余额，最近的充值先退。\n试用金、代金券和资源包不退款。",
    ),
    "help.balance.beancount": (
        (
            "Print the ledger as beancount text, so that another program can check it.\n"
            "Example: millpond balance beancount --tenant alpha > alpha.beancount; bean-check alpha.beancount"
        ),
        (
            "以 beancount 文本输出账本，供其他程序核对。\n"
            "例如：millpond balance beancount --tenant alpha > alpha.beancount; bean-check alpha.beancount"
        ),
    ),
    "accounts.tax_rate": ("Tax on top of prices: 0.06 is 6 %.", "税率，在价格之外：0.06 即 6%。"),
    "accounts.inclusive": ("Whether prices contain the tax.", "价格是否含税。"),
    "accounts.mode": (
        "prepaid holds money before a job starts; postpaid is invoiced later.",
        "prepaid 先冻结余额再启动作业；postpaid 后付费。",
    ),
    "accounts.minimum_seconds": ("Charged at least, for each start.", "每次启动的最低计费秒数。"),
    "accounts.increment_seconds": ("Charged in whole steps of so many seconds.", "计费步长（秒）。"),
    "accounts.bill_lost_work": ("Whether work lost in a preemption is billed.", "是否对抢占损失的工作计费。"),
    "accounts.notice": ("Warn so many seconds before the money ends.", "余额耗尽前提前多少秒告警。"),
    "accounts.stretch": (
        "Seconds that a job without max_duration holds at a time.",
        "未设 max_duration 的作业每次冻结的秒数。",
    ),
    "accounts.title": ("The buyer's name on invoices.", "账单抬头。"),
    "accounts.address": ("The buyer's address.", "购方地址。"),
    "accounts.tax_id": ("The buyer's tax number.", "购方税号。"),
    "accounts.currency": ("Currency of ISO 4217, such as CNY.", "ISO 4217 币种，例如 CNY。"),
    "accounts.zone": (
        "Zone whose months are the invoices', such as Asia/Shanghai.",
        "账期所用时区，例如 Asia/Shanghai。",
    ),
    "accounts.from": (
        "Bill use from this full clock hour; else from the present one.",
        "从该整点起计费；默认从当前小时起。",
    ),
    "accounts.empty": (
        "No tenant has an account: use is metered and reported, not billed. Open one: millpond accounts open TENANT",
        "还没有账户：用量只计量、出报表，不计费。开立：millpond accounts open TENANT",
    ),
    "accounts.opened": ("{tenant} is billed from {time}", "{tenant} 自 {time} 起计费"),
    "accounts.now_top_up": (
        "Jobs of {tenant} start when there is money for them: millpond balance top-up AMOUNT --tenant {tenant}",
        "{tenant} 的作业有余额才能启动：millpond balance top-up AMOUNT --tenant {tenant}",
    ),
    "accounts.changed": ("{tenant} is changed", "{tenant} 已更改"),
    "accounts.nothing_given": ("say what to change, such as --notice 600", "请指定要更改的设置，例如 --notice 600"),
    "balance.as_of": ("Only what was booked before this moment.", "只计此时刻之前入账的。"),
    "balance.known_at": ("Only what was written before this moment.", "只计此时刻之前写入的。"),
    "balance.from": ("Booked at or after this time.", "入账起始时间（含）。"),
    "balance.to": ("Booked before this time.", "入账截止时间（不含）。"),
    "balance.kind": ("Only this kind of account; may be repeated.", "只看此类账户；可重复。"),
    "balance.grant": ("Only this grant.", "只看此笔额度。"),
    "balance.all_grants": ("Also what is used up.", "包括已用完的额度。"),
    "balance.all": ("Every line, not only the last ones.", "显示全部明细。"),
    "balance.provider": ("Who took the money, such as bank or alipay.", "收款渠道，例如 bank、alipay。"),
    "balance.reference": ("Its name there; it counts once for ever.", "渠道流水号；只入账一次。"),
    "balance.identity": (
        "64 hex digits: HMAC-SHA256 of what was verified, with a key of your own.",
        "64 位十六进制：对实名信息以自有密钥计算的 HMAC-SHA256。",
    ),
    "balance.trial_amount": ("Credit in the account's currency; else 10.", "试用金额（账户币种）；默认 10。"),
    "balance.trial_days": ("Days until it expires; else 30.", "有效天数；默认 30。"),
    "balance.code": ("Code of the voucher, or number of the order; used once.", "代金券码或订单号；只能使用一次。"),
    "balance.amount": ("Money of it.", "金额。"),
    "balance.card_hours": ("Card-hours of a pack.", "资源包的卡时数。"),
    "balance.price": ("What the pack cost; else nothing.", "资源包售价；默认为零。"),
    "balance.expires": ("When it ends; else never.", "到期时间；默认永久有效。"),
    "balance.priority": ("Small ones of a kind are used first.", "同类中数值小的先用。"),
    "balance.sku": ("Only for this card model; may be repeated.", "仅限此卡型号；可重复。"),
    "balance.class": ("Only for this class; may be repeated.", "仅限此队列类别；可重复。"),
    "balance.project": ("Only for this project; may be repeated.", "仅限此项目；可重复。"),
    "balance.before": ("First day that is left out; else tomorrow.", "截止日（不含）；默认明天。"),
    "balance.zone": ("Zone of the days; else the account's.", "日期所用时区；默认账户时区。"),
    "balance.platform": ("Everybody's bookings.", "全平台账目。"),
    "balance.no_lines": ("No bookings.", "没有账目。"),
    "balance.more_lines": (
        "Only the last {count} are shown; --all shows every one.",
        "只显示最近 {count} 条；--all 显示全部。",
    ),
    "balance.ask_revoke": (
        "Take back what is left of grant {grant} from {tenant}?",
        "从 {tenant} 收回额度 {grant} 的剩余部分？",
    ),
    "balance.revoked": ("What was left of the {kind} is taken back", "已收回剩余的{kind}"),
    "balance.paid": ("{tenant} has paid {amount} {currency}", "{tenant} 已付款 {amount} {currency}"),
    "balance.ask_back": ("Pay {amount} back to {tenant}?", "向 {tenant} 退款 {amount}？"),
    "balance.paid_back": ("{amount} {currency} go back to {tenant}", "已向 {tenant} 退款 {amount} {currency}"),
    "balance.card_hours_unit": ("card-hours", "卡时"),
    "balance.card_time": ("{hours} card-hours", "{hours} 卡时"),
    "balance.no_grants": (
        "Nothing is there to spend: millpond balance top-up AMOUNT --reference TEXT --tenant {tenant}",
        "没有可用额度：millpond balance top-up AMOUNT --reference TEXT --tenant {tenant}",
    ),
    "balance.given": ("{tenant} has {amount} more ({kind})", "{tenant} 增加 {amount}（{kind}）"),
    "head.amount_left": ("FREE", "可用"),
    "head.booked": ("BOOKED", "入账时间"),
    "head.grant": ("GRANT", "额度"),
    "head.mode": ("MODE", "付费方式"),
    "head.on_hold": ("ON HOLD", "冻结"),
    "head.pays_for": ("PAYS FOR", "适用范围"),
    "head.sealed": ("CLOSED UNTIL", "已结账至"),
    "head.tax_rate": ("TAX", "税率"),
    "head.transfer": ("TRANSFER", "转账"),
    "head.unit": ("UNIT", "单位"),
    "head.what": ("WHAT", "摘要"),
    "head.whole": ("OF", "总额"),
    "head.zone": ("ZONE", "时区"),
    "field.accrued": ("Paid, not invoiced", "已扣未开账单"),
    "field.address": ("Address", "地址"),
    "field.at": ("As of", "截至"),
    "field.available": ("Free", "可用"),
    "field.bill_lost_work": ("Lost work billed", "损失工作计费"),
    "field.currency": ("Currency", "币种"),
    "field.deferred": ("Unused packs' price", "未用资源包价款"),
    "field.inclusive": ("Prices with tax", "价格含税"),
    "field.increment_seconds": ("Step, seconds", "计费步长（秒）"),
    "field.minimum_seconds": ("Minimum, seconds", "最低计费（秒）"),
    "field.mode": ("Mode", "付费方式"),
    "field.notice": ("Notice, seconds", "提前告警（秒）"),
    "field.on_hold": ("On hold", "冻结"),
    "field.opened": ("Billed from", "计费起始"),
    "field.owed": ("Owed", "欠款"),
    "field.packs": ("In packs", "资源包剩余"),
    "field.sealed": ("Closed until", "已结账至"),
    "field.stretch": ("Stretch, seconds", "每次冻结（秒）"),
    "field.tax_id": ("Tax number", "税号"),
    "field.tax_rate": ("Tax rate", "税率"),
    "field.tenant": ("Tenant", "租户"),
    "field.title": ("Buyer", "购方"),
    "field.zone": ("Zone", "时区"),
    "word.accrued": ("accrued", "已扣未开"),
    "word.credit": ("credit", "赠金"),
    "word.deferred": ("deferred", "预收"),
    "word.pack": ("pack", "资源包"),
    "word.paid": ("paid", "充值"),
    "word.postpaid": ("postpaid", "后付费"),
    "word.prepaid": ("prepaid", "预付费"),
    "word.receivable": ("owed", "应收"),
    "word.trial": ("trial", "试用金"),
    "word.voucher": ("voucher", "代金券"),
    "word.wallet": ("wallet", "余额"),
}
