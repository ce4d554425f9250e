package kubeletapi

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"
)

// The limits of a query, as the kubelet's (pkg/kubelet/kubelet_server_journal.go).
const (
	maxTailLines     = 100_000
	maxServices      = 4
	maxServiceLength = 256
	maxPattern       = 1024
)

// service matches the name of a service. A file of that name is looked up only in the directory of logs.
var service = regexp.MustCompile(`^[a-zA-Z0-9_.:@-]+$`)

// logQuery is a query for the logs of services or for one file.
type logQuery struct {
	services []string
	file     string
	logOptions
}

// logOptions select lines. The zero value selects all.
type logOptions struct {
	since, until time.Time
	// tail is the number of last lines; nil for all.
	tail *int
	// boot selects a boot, counted back from 0, the current one; nil for all.
	boot    *int
	pattern string
}

// asksQuery reports whether these are parameters of a query, and not of a file.
func asksQuery(values url.Values) bool {
	for _, known := range []string{"query", "sinceTime", "untilTime", "tailLines", "pattern", "boot"} {
		if known == "query" && values.Has(known) || values.Get(known) != "" {
			return true
		}
	}
	return false
}

// parseLogQuery parses a query. unreadable has all values that can't be parsed, and unacceptable all that are
// invalid together. The kubelet answers the two with different statuses.
func parseLogQuery(values url.Values) (q logQuery, unreadable, unacceptable error) {
	var wrong []error
	invalid := func(name string, why any) {
		wrong = append(wrong, fmt.Errorf("%s: Invalid value: %q: %v", name, values.Get(name), why))
	}
	var files []string
	for _, text := range values["query"] {
		switch {
		case strings.ContainsAny(text, `/\`):
			files = append(files, text)
		case strings.TrimSpace(text) != "":
			q.services = append(q.services, text)
		}
	}
	if values.Has("query") && len(files)+len(q.services) == 0 {
		invalid("query", "may not be empty")
	}
	for name, at := range map[string]*time.Time{"sinceTime": &q.since, "untilTime": &q.until} {
		if text := values.Get(name); text != "" {
			var err error
			if *at, err = time.Parse(time.RFC3339, text); err != nil {
				invalid(name, "invalid time format")
			}
		}
	}
	for name, number := range map[string]**int{"tailLines": &q.tail, "boot": &q.boot} {
		if text := values.Get(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				invalid(name, err)
			}
			*number = &n
		}
	}
	q.pattern = values.Get("pattern")
	if len(wrong) > 0 {
		return logQuery{}, errors.Join(wrong...), nil
	}
	if len(files) > 0 {
		// Callers may use backslashes.
		q.file = strings.ReplaceAll(files[0], `\`, "/")
	}
	unacceptable = q.check(len(files))
	return q, nil, unacceptable
}

// check returns all invalid values.
func (q *logQuery) check(files int) error {
	var wrong []error
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	switch {
	case files == 0 && len(q.services) == 0:
		add("query: Required value: cannot be empty with options")
	case files > 0 && len(q.services) > 0:
		add("query: cannot specify a file and service")
	case files > 1:
		add("query: cannot specify more than one file")
	case files == 1 && q.logOptions != (logOptions{}):
		add("query: cannot specify file with options")
	}
	if len(q.services) > maxServices {
		add("query: Too many: %d: must have at most %d items", len(q.services), maxServices)
	}
	for _, name := range q.services {
		if len(name) > maxServiceLength || !service.MatchString(name) {
			add("query: Invalid value: %q: it is too long or has unsupported characters", name)
		}
	}
	if !q.since.IsZero() && !q.until.IsZero() && q.since.After(q.until) {
		add("untilTime: must be after `sinceTime`")
	}
	if q.boot != nil && *q.boot > 0 {
		add("boot: Invalid value: %d: must be less than 1", *q.boot)
	}
	if q.tail != nil && (*q.tail < 0 || *q.tail > maxTailLines) {
		add("tailLines: Invalid value: %d: must be between 0 and %d, inclusive", *q.tail, maxTailLines)
	}
	if _, err := syntax.Parse(q.pattern, syntax.Perl); err != nil || len(q.pattern) > maxPattern {
		add("pattern: Invalid value: %q: it is no pattern, or too long", q.pattern)
	}
	return errors.Join(wrong...)
}

// journalArgs returns the arguments of journalctl for these services. Each value is in one argument with its option,
// so that it can't be read as an option.
func (q *logQuery) journalArgs(services []string) []string {
	const layout = "2006-01-02 15:04:05"
	args := []string{"--utc", "--no-pager", "--output=short-precise"}
	if !q.since.IsZero() {
		args = append(args, "--since="+q.since.UTC().Format(layout))
	}
	if !q.until.IsZero() {
		args = append(args, "--until="+q.until.UTC().Format(layout))
	}
	if q.tail != nil {
		args = append(args, fmt.Sprintf("--lines=%d", *q.tail))
	}
	for _, name := range services {
		args = append(args, "--unit="+name)
	}
	if q.pattern != "" {
		args = append(args, "--grep="+q.pattern)
	}
	if q.boot != nil {
		args = append(args, fmt.Sprintf("--boot=%d", *q.boot))
	}
	return args
}
