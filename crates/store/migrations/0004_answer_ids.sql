-- Finds the answer that `previous_response_id` names. Providers number answers in OpenAI Responses only.
CREATE INDEX turns_answer_id ON turns (json_extract(answer, '$.id'))
    WHERE dialect = 'openai-responses' AND json_valid(answer);
