//! The list of models as `/v1/models` shows it. Comes from the configuration or the upstream; goes to the agent.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::Dialect;

/// One model an agent may ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelInfo {
    /// The name requests use.
    pub id: String,
    /// The name for people; the id where there is none.
    pub display_name: Option<String>,
    /// Who offers it.
    pub owner: String,
    /// Since when, in Unix seconds; 0 where unknown.
    pub created: i64,
}

/// The body of `GET /v1/models` in the dialect's form.
pub fn models_body(dialect: Dialect, models: &[ModelInfo]) -> Bytes {
    let body = match dialect {
        Dialect::Chat | Dialect::Responses => json!({
            "object": "list",
            "data": models.iter().map(openai).collect::<Vec<_>>(),
        }),
        Dialect::Messages => json!({
            "data": models.iter().map(anthropic).collect::<Vec<_>>(),
            "has_more": false,
            "first_id": models.first().map(|model| &model.id),
            "last_id": models.last().map(|model| &model.id),
        }),
    };
    Bytes::from(body.to_string())
}

fn openai(model: &ModelInfo) -> Value {
    json!({ "id": model.id, "object": "model", "created": model.created, "owned_by": model.owner })
}

fn anthropic(model: &ModelInfo) -> Value {
    json!({
        "type": "model",
        "id": model.id,
        "display_name": model.display_name.as_ref().unwrap_or(&model.id),
        "created_at": rfc3339(model.created),
    })
}

/// Unix seconds as `2026-11-30T08:54:00Z`.
fn rfc3339(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years are counted from March, in eras of 400 years, so that leap days come last.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_796_028_840), "2026-11-30T08:54:00Z");
        assert_eq!(rfc3339(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn each_dialect_gets_its_own_list() {
        let models = [ModelInfo { id: "m1".into(), owner: "metaclaw".into(), ..ModelInfo::default() }];
        let text = |dialect| String::from_utf8(models_body(dialect, &models).to_vec()).unwrap();
        assert_eq!(
            text(Dialect::Chat),
            r#"{"object":"list","data":[{"id":"m1","object":"model","created":0,"owned_by":"metaclaw"}]}"#
        );
        assert_eq!(
            text(Dialect::Messages),
            r#"{"data":[{"type":"model","id":"m1","display_name":"m1","created_at":"1970-01-01T00:00:00Z"}],"has_more":false,"first_id":"m1","last_id":"m1"}"#
        );
    }
}
