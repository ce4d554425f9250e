package stream

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// logOptions say how much is wanted of a log, as v1.PodLogOptions do.
type logOptions struct {
	follow, previous, timestamps bool
	// since leaves out what is older. Zero: nothing.
	since time.Time
	// tail and limit are the most lines and bytes that are wanted. Nil: all.
	tail, limit *int64
	stdout      bool
	stderr      bool
}

// The answers to options that can't be read, and to options that can't be.
var (
	errLogQuery   = fail(http.StatusBadRequest, `{"message": "Unable to decode query."}`)
	errLogOptions = fail(http.StatusUnprocessableEntity, `{"message": "Invalid request."}`)
)

// parseLogOptions reads the options from a query, by the API's rules. Of a parameter that is given twice the first counts.
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
		// The last lines are looked for in both streams at once.
		stream != v1.LogStreamAll && o.tail != nil:
		return logOptions{}, errLogOptions
	}
	if seconds != nil {
		o.since = now.Add(-time.Duration(min(*seconds, int64(maxAge/time.Second))) * time.Second)
	}
	return o, nil
}

// maxAge is about the longest that a Duration can be.
const maxAge = 290 * 365 * 24 * time.Hour

// truth is false for a parameter that isn't there, "false" and "0", and true for all else.
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
