//! The tray: what the icon and the menu show is a [`Model`] made of facts; the menu is written anew only when the model
//! changes. The icon's shape tells the state, its colour only suits the panel.

use engine::api::{ServiceState, Status};
use tauri::image::Image;
use tauri::menu::{CheckMenuItemBuilder, IsMenuItem, MenuBuilder, MenuItemBuilder, PredefinedMenuItem, SubmenuBuilder};
use tauri::tray::{MouseButton, TrayIconBuilder, TrayIconEvent};
use tauri::{AppHandle, Wry, include_image};

use crate::events::{Line, clock};
use crate::host::View;
use crate::words::{Words, fill};

const ID: &str = "metaclaw";

/// What the silhouette says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claw {
    /// Outline.
    Stopped,
    /// Filled.
    Running,
    /// Filled, with a disc: something needs the person.
    Attention,
}

/// The colour that can be seen on the panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// For light panels.
    Ink,
    /// For dark panels.
    Paper,
}

impl Colour {
    /// What suits the panel. `asked` is `app.tray_icon`, `dark` what the desktop says of itself where it does. Panels are
    /// dark on all desktops but KDE's and LXQt's, where they follow the windows.
    pub(crate) fn suiting(asked: &str, desktop: &str, dark: Option<bool>) -> Self {
        let follows = desktop.split(':').any(|name| matches!(name, "KDE" | "LXQt"));
        match asked {
            "ink" => Self::Ink,
            "paper" => Self::Paper,
            _ if follows && dark != Some(true) => Self::Ink,
            _ => Self::Paper,
        }
    }
}

/// Everything the tray shows is made of this.
pub(crate) struct Facts<'a> {
    pub view: &'a View,
    pub status: Option<&'a Status>,
    pub down_since_ms: Option<i64>,
    pub recent: &'a [Line],
    pub at_login: Option<bool>,
    pub colour: Colour,
}

/// One entry of the menu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// Text that only tells.
    Text(String),
    /// Something to do, by its id.
    Do(String, String),
    /// A choice that is on or off; absent id = cannot be changed.
    Choice(Option<String>, String, bool),
    /// More of them.
    Sub(String, Vec<Item>),
    /// A line.
    Rule,
}

/// What the tray shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    pub claw: Claw,
    pub colour: Colour,
    pub tip: String,
    pub items: Vec<Item>,
}

/// What the menu's entries mean.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Act<'a> {
    Open(Option<&'a str>),
    Copy,
    Mode(&'a str),
    Start,
    Stop,
    AtLogin,
    Quit,
}

impl<'a> Act<'a> {
    /// The act of an entry's id.
    pub(crate) fn of(id: &'a str) -> Option<Self> {
        // An id is the act and, after a colon, its object; what stands after a second one only tells entries apart.
        let (act, object) = id.split_once(':').unwrap_or((id, ""));
        let object = object.split(':').next().unwrap_or_default();
        Some(match act {
            "open" => Self::Open(Some(object).filter(|page| !page.is_empty())),
            "copy" => Self::Copy,
            "mode" => Self::Mode(object),
            "start" => Self::Start,
            "stop" => Self::Stop,
            "login" => Self::AtLogin,
            "quit" => Self::Quit,
            _ => return None,
        })
    }
}

/// What is to be shown.
pub(crate) fn model(facts: &Facts<'_>, words: &Words) -> Model {
    let serves = facts.view.serves();
    let status = facts.status.filter(|_| serves);
    let state = state(facts, words);
    let problem = problem(facts, words);
    let claw = match (&problem, serves) {
        (Some(_), _) => Claw::Attention,
        (None, true) => Claw::Running,
        (None, false) => Claw::Stopped,
    };
    let act = |id: &str, text: &str| Item::Do(id.to_owned(), text.to_owned());
    let mut items = vec![Item::Text(state.clone())];
    if let Some((text, page)) = &problem {
        items.push(Item::Do(format!("open:{page}:problem"), text.clone()));
    }
    if let View::Attached { pid: Some(pid) } = facts.view {
        items.push(Item::Text(fill(words.attached, &[("pid", &pid.to_string())])));
    }
    items.extend([Item::Rule, act("open", words.open)]);
    if status.is_some_and(|status| status.base_url.is_some()) {
        items.push(act("copy", words.copy));
    }
    items.push(Item::Rule);
    if let Some(status) = status {
        let modes = [("skills_only", words.mode_skills), ("rl", words.mode_rl), ("auto", words.mode_auto)];
        let now = modes.iter().find(|mode| mode.0 == status.mode).map_or(status.mode.as_str(), |mode| mode.1);
        let choice = |(id, text): (&str, &str)| {
            let id_of = (!status.mode_overruled).then(|| format!("mode:{id}"));
            Item::Choice(id_of, text.to_owned(), id == status.mode)
        };
        items.push(Item::Sub(fill(words.mode, &[("mode", now)]), modes.into_iter().map(choice).collect()));
    }
    let recent = facts.recent.iter().enumerate();
    let recent: Vec<Item> =
        recent.map(|(place, line)| Item::Do(format!("open:{}:{place}", line.page), line.text.clone())).collect();
    let recent = if recent.is_empty() { vec![Item::Text(words.nothing_yet.to_owned())] } else { recent };
    items.push(Item::Sub(words.recent.to_owned(), recent));
    if let Some(on) = facts.at_login {
        items.push(Item::Choice(Some("login".to_owned()), words.at_login.to_owned(), on));
    }
    items.push(Item::Rule);
    match facts.view {
        View::Stopped { .. } => items.push(act("start", words.start)),
        View::Own | View::Attached { .. } => items.push(act("stop", words.stop)),
        View::Starting | View::Stopping => {}
    }
    items.push(act("quit", words.quit));
    let tip = problem.map_or_else(|| state.clone(), |(text, _)| format!("{state}\n{text}"));
    Model { claw, colour: facts.colour, tip: format!("MetaClaw\n{tip}"), items }
}

fn state(facts: &Facts<'_>, words: &Words) -> String {
    let text = match facts.view {
        View::Stopped { .. } => words.stopped,
        View::Starting => words.starting,
        View::Stopping => words.stopping,
        View::Own | View::Attached { .. } => match facts.status.map(|status| status.mode.as_str()) {
            Some("auto") => words.running_auto,
            Some("rl") => words.running_rl,
            Some(_) => words.running_skills,
            None => words.starting,
        },
    };
    text.to_owned()
}

/// The first thing that needs the person, and the page it is looked after on.
fn problem(facts: &Facts<'_>, words: &Words) -> Option<(String, &'static str)> {
    if let View::Stopped { problem } = facts.view {
        return problem.clone().map(|problem| (problem, "home"));
    }
    let status = facts.status.filter(|_| facts.view.serves())?;
    if status.config_problem.is_some() {
        return Some((words.config_problem.to_owned(), "settings/diagnostics"));
    }
    if status.state == ServiceState::FirstRun {
        return Some((words.not_set_up.to_owned(), "setup"));
    }
    if let Some(since) = facts.down_since_ms {
        let slots = [("provider", status.provider.id.as_str()), ("time", &clock(since))];
        return Some((fill(words.provider_failing, &slots), "settings/provider"));
    }
    status.warnings.first().map(|warning| (warning.clone(), "home"))
}

/// Shows the model; makes the icon first where there is none. Runs on the main thread.
pub(crate) fn apply(app: &AppHandle, model: &Model) -> tauri::Result<()> {
    let items = build(app, &model.items)?;
    let mut menu = MenuBuilder::new(app);
    for item in &items {
        menu = menu.item(&**item);
    }
    let menu = menu.build()?;
    let picture = picture(model.claw, model.colour);
    if let Some(tray) = app.tray_by_id(ID) {
        tray.set_icon(Some(picture))?;
        tray.set_tooltip(Some(&model.tip))?;
        return tray.set_menu(Some(menu));
    }
    TrayIconBuilder::with_id(ID)
        .title("MetaClaw")
        .icon(picture)
        .tooltip(&model.tip)
        .menu(&menu)
        .show_menu_on_left_click(false)
        .on_tray_icon_event(|tray, event| {
            if let TrayIconEvent::Click { button: MouseButton::Left, .. } = event {
                crate::window::open(tray.app_handle(), None);
            }
        })
        .build(app)
        .map(|_| ())
}

/// Takes the icon away.
pub(crate) fn remove(app: &AppHandle) {
    drop(app.remove_tray_by_id(ID));
}

fn build(app: &AppHandle, items: &[Item]) -> tauri::Result<Vec<Box<dyn IsMenuItem<Wry>>>> {
    let one = |item: &Item| -> tauri::Result<Box<dyn IsMenuItem<Wry>>> {
        Ok(match item {
            Item::Text(text) => Box::new(MenuItemBuilder::new(plain(text)).enabled(false).build(app)?),
            Item::Do(id, text) => Box::new(MenuItemBuilder::with_id(id, plain(text)).build(app)?),
            Item::Choice(id, text, on) => {
                let builder = match id {
                    Some(id) => CheckMenuItemBuilder::with_id(id, plain(text)),
                    None => CheckMenuItemBuilder::new(plain(text)).enabled(false),
                };
                Box::new(builder.checked(*on).build(app)?)
            }
            Item::Sub(text, inner) => {
                let inner = build(app, inner)?;
                let mut menu = SubmenuBuilder::new(app, plain(text));
                for item in &inner {
                    menu = menu.item(&**item);
                }
                Box::new(menu.build()?)
            }
            Item::Rule => Box::new(PredefinedMenuItem::separator(app)?),
        })
    };
    items.iter().map(one).collect()
}

/// Text in which no letter becomes a shortcut.
fn plain(text: &str) -> String {
    text.replace('&', "&&")
}

fn picture(claw: Claw, colour: Colour) -> Image<'static> {
    match (claw, colour) {
        (Claw::Stopped, Colour::Ink) => include_image!("icons/tray/stopped-ink-32.png"),
        (Claw::Stopped, Colour::Paper) => include_image!("icons/tray/stopped-paper-32.png"),
        (Claw::Running, Colour::Ink) => include_image!("icons/tray/running-ink-32.png"),
        (Claw::Running, Colour::Paper) => include_image!("icons/tray/running-paper-32.png"),
        (Claw::Attention, Colour::Ink) => include_image!("icons/tray/attention-ink-32.png"),
        (Claw::Attention, Colour::Paper) => include_image!("icons/tray/attention-paper-32.png"),
    }
}

#[cfg(test)]
#[path = "tray_tests.rs"]
mod tests;
