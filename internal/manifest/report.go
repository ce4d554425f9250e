package manifest

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxFindings is how many findings of one severity a document (or a list's item) gets, in addition to the one
	// that counts the rest.
	maxFindings = 19
	// maxOriginFindings is how many an origin gets in all: 10 MiB can have millions of invalid documents.
	maxOriginFindings = 500
	// maxMessage bounds one message, in bytes. A message may quote a value, and values have no limit of their own.
	maxMessage = 512
)

// report adds the findings of one document, or of one item of a list, to its origin.
type report struct {
	parser   *parser
	document int
	// line is the line at which the document begins.
	line int
	// prefix is the item's path within the document, or empty.
	prefix string
	// discreet leaves out quotes of the document from findings, for all callers.
	discreet bool
	// tree is the document, or the item; nil if it can't be read.
	tree map[string]any
	// objectless is set once it is known that the document, or the item, defines no ConfigMap or Secret.
	objectless bool
	// failed is set once there is an error.
	failed bool
	// counts has the number of findings of each severity, including those that were left out.
	counts [Ignored + 1]int
}

func (p *parser) report(document int) *report {
	return &report{parser: p, document: document}
}

// within returns a report for a part of the document.
func (r *report) within(prefix string) *report {
	return &report{parser: r.parser, document: r.document, line: r.line, prefix: prefix, discreet: r.discreet, objectless: r.objectless}
}

// errorf reports an error in the wordings of problemf.
func (r *report) errorf(field, format string, args ...any) {
	r.reject(field, problemf(format, args...))
}

// reject reports why the document, or the item, can't be used.
func (r *report) reject(field string, err error) {
	r.failed = true
	r.parser.origin.Held = true
	r.parser.origin.ObjectsUnknown = r.parser.origin.ObjectsUnknown || !r.objectless
	r.add(Error, field, asProblem(err))
}

// warnf reports a warning in the wordings of problemf.
func (r *report) warnf(field, format string, args ...any) {
	r.add(Warning, field, problemf(format, args...))
}

// strict reports a problem that is an error under Strict, and otherwise a warning, with its consequence.
func (r *report) strict(strict bool, field string, what *problem, consequence word) {
	if strict {
		r.reject(field, what)
		return
	}
	r.warnf(field, "%v: %s", what, consequence)
}

func (r *report) add(severity Severity, field string, what *problem) {
	r.counts[severity]++
	if r.counts[severity] > maxFindings {
		return
	}
	f := Finding{Severity: severity, Document: r.document, Field: r.path(field), Message: oneLine(what.Error())}
	switch {
	case r.discreet:
		f.Message = oneLine(what.unquoted)
		if shown := discreetPath(field, r.tree); shown != field {
			f = f.below(r.path(shown))
		}
	case what.unquoted != what.Error():
		f.Unquoted = oneLine(what.unquoted)
	}
	r.parser.add(f)
}

// close reports how many findings were left out.
func (r *report) close() {
	for _, severity := range []Severity{Warning, Error} {
		if more := r.counts[severity] - maxFindings; more > 0 {
			r.parser.add(Finding{
				Severity: severity, Document: r.document, Field: r.prefix, Message: fmt.Sprintf("and %d more of this severity", more),
			})
		}
	}
}

func (p *parser) add(f Finding) {
	if len(p.origin.Findings) >= maxOriginFindings {
		p.left++
		return
	}
	p.origin.Findings = append(p.origin.Findings, f)
}

// close reports how many findings of the origin were left out.
func (p *parser) close() {
	if p.left == 0 {
		return
	}
	f := Finding{Severity: Warning, Message: fmt.Sprintf("and %d more findings", p.left)}
	if p.origin.Held {
		f.Severity = Error
	}
	p.origin.Findings = append(p.origin.Findings, f)
}

func (r *report) path(field string) string {
	switch {
	case r.prefix == "":
		return oneLine(field)
	case field == "":
		return r.prefix
	default:
		return r.prefix + "." + oneLine(field)
	}
}

// oneLine makes a text fit for a log line and a table: no line breaks or other control characters, valid UTF-8,
// bounded.
func oneLine(s string) string {
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || c == '\u2028' || c == '\u2029' {
			return ' '
		}
		return c
	}, strings.TrimSpace(s))
	if len(s) <= maxMessage {
		return s
	}
	cut := maxMessage
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
