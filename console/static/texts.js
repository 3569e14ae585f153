// The page's own words in two languages. What the cluster says (messages, reasons) stands as the cluster says it.
const TEXTS = {
  en: {
    fleet: "Fleet", pool: "Pools", pod: "Pods", card: "Card", onePool: "Pool", confirm: "To confirm", broken: "What broke",
    skip: "Skip to content", language: "Русский", theme: "Theme", views: "Views", light: "Light", dark: "Dark", auto: "As the system",
    loading: "Loading…", nothing: "Nothing to show.", none: "–",
    lostConsole: (since) => `The console does not answer. What you see is as of ${since}; it is asked again every few seconds.`,
    lostServer: (since) => `The API server does not answer. What you see is as of ${since}; it is asked again by itself.`,
    unauthorized: "You are not logged in any more.",
    unauthorizedDo: "Log in again and load the page anew; of your own console, start kubectl gpu console again and open the address that it prints.",
    forbidden: "You may not see this.", fault: "The console cannot show this page.",
    missing: (of, name) => `There is no ${of} ${name}.`, missingWait: "The page shows it as soon as it is there.",
    hidden: (count, of) => `${count} × ${of} that you may not read`, refused: (of) => `${of} cannot be shown`,
    states: {
      Free: "free", InUse: "in use", Promised: "promised", Faulted: "faulted", Blocked: "kept out", NotOffered: "not offered",
      Leaving: "leaving", Pending: "to confirm", Unassigned: "in no pool",
    },
    node: "Node", nodes: "Nodes", cards: "Cards", product: "Product", state: "State", all: "all", filter: "Filter", search: "Node or card",
    notReady: "not ready", cordoned: "cordoned", driver: "Driver", legend: "Cards by state; choose one to see only these",
    fleetHint: "Arrow keys go from card to card, Enter opens one. Cards in a frame are joined by NVLink.",
    shown: (some, all) => `${some} of ${all} nodes`, group: "NVLink group",
    capacity: "Capacity", used: "used", reserved: "promised", available: "free", unavailable: "unavailable", total: "total",
    queue: "Queue", queueEmpty: "Nobody waits.", position: "Place", namespace: "Namespace", podName: "Pod", units: "Units",
    priority: "Priority", waits: "Waits", reason: "Reason", ahead: "Ahead", mode: "Mode", access: "Who may use it", waiting: "Waiting",
    kept: "kept", free: "free now", promisedNode: "promised", conditions: "Conditions", type: "Condition", status: "Status", message: "Message",
    since: "Since", health: "Health", event: "Last event", slots: "Slots", devices: "Cards", rollouts: "Driver roll-outs",
    phase: "Phase", eta: "Done by", reconfigured: "Last reconfigured", commands: "Commands", copy: "Copy", copied: "Copied",
    verdicts: "Why, node by node and card by card", verdict: "Verdict", fits: "fits", unknown: "other things decide", asksFor: "Asks for",
    otherNamespace: "a pod of another namespace", notLooked: "not looked at", findings: "What was found",
    holders: "Who has it", has: "has it", foreign: "has it past this module", promised: "is promised it", until: "until", nobody: "Nobody.",
    timeline: "Time line", timelineEmpty: "Nobody is known to have had it, and nothing was the matter with it.", what: "What", lasts: "now", notKnown: "not known",
    hardware: "Hardware", memory: "Memory", uuid: "UUID",
    numa: "NUMA node", pci: "PCI address", peers: "NVLink peers", mig: "MIG instances", inventoryID: "Inventory ID", temperature: "Temperature",
    ecc: "Uncorrectable memory errors", xid: "Last XID", throttled: "Throttled", yes: "yes", no: "no", updated: "As of",
    confirmTitle: "Cards that wait for a person", choose: "Choose", chooseAll: "Choose all that are shown", into: "Into pool", confirmButton: (n) => n === 1 ? "Confirm 1 card" : `Confirm ${n} cards`,
    confirmOnlyRead: "This console may only read. The command does it with your own rights:", confirmBusy: "Asking…", confirmed: "confirmed",
    confirmDecided: "Others in no pool", chosen: (n) => `${n} chosen`, noPool: "choose a pool", answer: "Answer", brokenNone: "Nothing is broken.",
    object: "Object", whoami: (who) => `as ${who}`, explain: "Explain it", assign: "Put it into a pool", unassign: "Take it out of its pool",
    ignore: "Keep it out of every pool", unignore: "Let pools take it again", more: "More in the terminal", commandsOnly: "The page changes nothing but what it confirms; these commands do.",
  },
  ru: {
    fleet: "Парк", pool: "Пулы", pod: "Поды", card: "Карта", onePool: "Пул", confirm: "На подтверждение", broken: "Что сломалось",
    skip: "К содержанию", language: "English", theme: "Тема", views: "Разделы", light: "Светлая", dark: "Тёмная", auto: "Как в системе",
    loading: "Загрузка…", nothing: "Показывать нечего.", none: "–",
    lostConsole: (since) => `Консоль не отвечает. Показано состояние на ${since}; запрос повторяется каждые несколько секунд.`,
    lostServer: (since) => `API-сервер не отвечает. Показано состояние на ${since}; запрос повторяется сам.`,
    unauthorized: "Вход больше не действителен.",
    unauthorizedDo: "Войдите снова и перезагрузите страницу; если консоль ваша, запустите kubectl gpu console заново и откройте адрес, который она напечатает.",
    forbidden: "У вас нет прав это видеть.", fault: "Консоль не может показать эту страницу.",
    missing: (of, name) => `${of} ${name} не существует.`, missingWait: "Страница покажет его, как только он появится.",
    hidden: (count, of) => `${count} × ${of}: нет прав на чтение`, refused: (of) => `${of}: показать нельзя`,
    states: {
      Free: "свободна", InUse: "занята", Promised: "обещана", Faulted: "неисправна", Blocked: "исключена", NotOffered: "не предлагается",
      Leaving: "уходит из пула", Pending: "ждёт подтверждения", Unassigned: "вне пулов",
    },
    node: "Узел", nodes: "Узлы", cards: "Карты", product: "Модель", state: "Состояние", all: "все", filter: "Отбор", search: "Узел или карта",
    notReady: "не готов", cordoned: "закрыт (cordon)", driver: "Драйвер", legend: "Карты по состоянию; выберите одно, чтобы видеть только их",
    fleetHint: "Стрелки переходят от карты к карте, Enter открывает. Карты в рамке соединены NVLink.",
    shown: (some, all) => `${some} из ${all} узлов`, group: "Группа NVLink",
    capacity: "Ёмкость", used: "занято", reserved: "обещано", available: "свободно", unavailable: "недоступно", total: "всего",
    queue: "Очередь", queueEmpty: "Никто не ждёт.", position: "Место", namespace: "Пространство имён", podName: "Под", units: "Единиц",
    priority: "Приоритет", waits: "Ждёт", reason: "Причина", ahead: "Впереди", mode: "Режим", access: "Кому доступен", waiting: "Ждут",
    kept: "придержан", free: "свободен", promisedNode: "обещан", conditions: "Условия", type: "Условие", status: "Статус", message: "Сообщение",
    since: "С", health: "Здоровье", event: "Последнее событие", slots: "Слотов", devices: "Карт", rollouts: "Обновления драйвера",
    phase: "Фаза", eta: "Готово к", reconfigured: "Последняя перенастройка", commands: "Команды", copy: "Копировать", copied: "Скопировано",
    verdicts: "Почему: по узлам и картам", verdict: "Вердикт", fits: "подходит", unknown: "решает другое", asksFor: "Просит",
    otherNamespace: "под другого пространства имён", notLooked: "не рассматривалось", findings: "Что найдено",
    holders: "У кого она", has: "владеет", foreign: "владеет в обход модуля", promised: "обещана", until: "до", nobody: "Ни у кого.",
    timeline: "История", timelineEmpty: "Неизвестно, чтобы карта кому-то доставалась или была неисправна.", what: "Что", lasts: "сейчас", notKnown: "неизвестно",
    hardware: "Оборудование", memory: "Память", uuid: "UUID",
    numa: "Узел NUMA", pci: "Адрес PCI", peers: "Соседи по NVLink", mig: "Экземпляры MIG", inventoryID: "Inventory ID", temperature: "Температура",
    ecc: "Неисправимые ошибки памяти", xid: "Последний XID", throttled: "Замедлена", yes: "да", no: "нет", updated: "По состоянию на",
    confirmTitle: "Карты, которые ждут человека", choose: "Выбрать", chooseAll: "Выбрать все показанные", into: "В пул", confirmButton: (n) => `Подтвердить карт: ${n}`,
    confirmOnlyRead: "Эта консоль только читает. Команда сделает это с вашими правами:", confirmBusy: "Запрос…", confirmed: "подтверждена",
    confirmDecided: "Другие вне пулов", chosen: (n) => `выбрано: ${n}`, noPool: "выберите пул", answer: "Ответ", brokenNone: "Ничего не сломано.",
    object: "Объект", whoami: (who) => `от имени ${who}`, explain: "Объяснить", assign: "Поместить в пул", unassign: "Вывести из пула",
    ignore: "Не отдавать ни одному пулу", unignore: "Снова отдать пулам", more: "Подробнее в терминале", commandsOnly: "Страница меняет только то, что подтверждает; остальное делают команды.",
  },
};

const LANGUAGES = Object.keys(TEXTS);
let chosen = "en";

export const t = (key, ...about) => {
  const found = TEXTS[chosen][key];
  return typeof found === "function" ? found(...about) : found ?? key;
};

export const stateText = (state) => TEXTS[chosen].states[state] ?? state;

export const language = () => chosen;

export function speak(wanted) {
  chosen = LANGUAGES.includes(wanted) ? wanted : "en";
  document.documentElement.lang = chosen;
}

// For a test: both languages say the same things.
export const KEYS = Object.fromEntries(LANGUAGES.map((each) => [each, Object.keys(TEXTS[each])]));
