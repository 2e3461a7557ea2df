// The sentences about the desktop shell itself, in the window's three languages.
import { language, type Lang } from "./index.svelte";

const WORDS = {
  en: {
    failed: "MetaClaw did not start.",
    stopped: "The service is stopped.",
    start: "Start",
    no_tray: "This desktop shows no tray icons. MetaClaw goes on when you close this window; start it again to see it.",
    no_tray_how: "On GNOME the extension “AppIndicator and KStatusNotifierItem Support” shows them.",
    fine: "Understood",
  },
  "zh-CN": {
    failed: "MetaClaw 没有启动。",
    stopped: "服务已停止。",
    start: "启动",
    no_tray: "这个桌面不显示托盘图标。关闭窗口后 MetaClaw 继续运行；再次启动即可看到它。",
    no_tray_how: "在 GNOME 上，扩展“AppIndicator and KStatusNotifierItem Support”可以显示图标。",
    fine: "知道了",
  },
  ja: {
    failed: "MetaClaw を起動できませんでした。",
    stopped: "サービスは停止しています。",
    start: "開始",
    no_tray: "このデスクトップにはトレイアイコンが表示されません。ウィンドウを閉じても MetaClaw は動き続け、もう一度起動すると表示されます。",
    no_tray_how: "GNOME では拡張機能「AppIndicator and KStatusNotifierItem Support」で表示できます。",
    fine: "わかりました",
  },
} satisfies Record<Lang, Record<string, string>>;

export const shellWord = (key: keyof (typeof WORDS)["en"]): string => WORDS[language.current][key];
