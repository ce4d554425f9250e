package stream

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// logOptions select a part of a log, as v1.PodLogOptions do.
type logOptions struct {
	follow, previous, timestamps bool
	// since excludes older lines. Zero: none.
	since time.Time
	// tail and limit are the limits of lines and bytes. Nil: no limit.
	tail, limit *int64
	stdout      bool
	stderr      bool
}

// The responses to options that can't be parsed, and to invalid ones.
var (
	errLogQuery   = badRequest(`{"message": "Unable to decode query."}`)
	errLogOptions = unprocessable(`{"message": "Invalid request."}`)
)

// parseLogOptions parses the options of a query by the API's rules. Of a repeated parameter the first value counts.
func parseLogOptions(query url.Values, now time.Time) (logOptions, error) {
	o := logOptions{
		follow: truth(query, "follow"), previous: truth(query, "previous"), timestamps: truth(query, "timestamps"),
	}
	if tail := query.Get("tail"); tail == "all" { // The parameter's older name.
		query.Del("tailLines")
	} else if tail != "" {
		query.Set("tailLines", tail)
	}
	var seconds *int64
	for name, n := range map[string]**int64{"tailLines": &o.tail, "limitBytes": &o.limit, "sinceSeconds": &seconds} {
		var err error
		if *n, err = number(query, name); err != nil {
			return logOptions{}, errLogQuery
		}
	}
	if text := query.Get("sinceTime"); text != "" {
		var err error
		if o.since, err = time.Parse(time.RFC3339, text); err != nil {
			return logOptions{}, errLogQuery
		}
	}
	stream := v1.LogStreamAll
	if query.Has("stream") {
		stream = query.Get("stream")
	}
	o.stdout, o.stderr = stream != v1.LogStreamStderr, stream != v1.LogStreamStdout
	switch {
	case o.tail != nil && *o.tail < 0,
		o.limit != nil && *o.limit < 1,
		seconds != nil && (*seconds < 1 || !o.since.IsZero()),
		stream != v1.LogStreamAll && stream != v1.LogStreamStdout && stream != v1.LogStreamStderr,
		// The last lines are searched in both streams together.
		stream != v1.LogStreamAll && o.tail != nil:
		return logOptions{}, errLogOptions
	}
	if seconds != nil {
		o.since = now.Add(-time.Duration(min(*seconds, int64(maxAge/time.Second))) * time.Second)
	}
	return o, nil
}

// maxAge is about the longest Duration.
const maxAge = 290 * 365 * 24 * time.Hour

// truth returns false for a missing parameter, "false" and "0", and true for all else.
func truth(query url.Values, name string) bool {
	value := query.Get(name)
	return query.Has(name) && value != "0" && !strings.EqualFold(value, "false")
}

func number(query url.Values, name string) (*int64, error) {
	if !query.Has(name) {
		return nil, nil //nolint:nilnil // It isn't given, and that is no error.
	}
	n, err := strconv.ParseInt(query.Get(name), 10, 64)
	if err != nil {
		return nil, err
	}
	return &n, nil
}
