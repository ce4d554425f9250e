package write

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/podstream/podstream/internal/manifest"
)

// MaxDocuments is the maximum number of documents of one write, and of the source.
const MaxDocuments = 10_000

// The problems of a request that are reported: so many, and about so many bytes.
const (
	maxProblems     = 20
	maxProblemBytes = 6 << 10
)

// File is some manifests of a request. Name is for messages only.
type File struct {
	Name    string
	Content []byte
}

// Place is a document's place in a request.
type Place struct {
	File           string
	Document, Line int
}

// String returns the place for messages: "web.yaml:12".
func (p Place) String() string {
	if p.File == "" {
		return fmt.Sprintf("line %d", p.Line)
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Draft is a document of a request, with its place.
type Draft struct {
	*Document
	Place
}

// InvalidError is the error of a request whose documents can't be used. It has a line for each problem.
type InvalidError struct {
	Problems []string
	bytes    int
	more     bool
}

func (e *InvalidError) Error() string { return strings.Join(e.Problems, "\n") }

// add adds a problem, or that there are more.
func (e *InvalidError) add(at Place, format string, args ...any) {
	text := at.String() + ": " + fmt.Sprintf(format, args...)
	switch {
	case e.more:
	case len(e.Problems) == maxProblems || e.bytes+len(text) > maxProblemBytes && len(e.Problems) > 0:
		e.Problems, e.more = append(e.Problems, "and more problems"), true
	default:
		e.Problems, e.bytes = append(e.Problems, text), e.bytes+len(text)
	}
}

// Read parses the files of a write by caller to set. If a document can't be used, it returns an *InvalidError.
func Read(files []File, caller, set string, opts Options) ([]Draft, error) {
	var drafts []Draft
	wrong, seen := &InvalidError{}, map[Key]Place{}
	for _, file := range files {
		count := 0
		for text := range manifest.Documents(file.Content) {
			count++
			at := Place{file.Name, count, text.Line}
			if len(drafts) == MaxDocuments {
				return nil, &LimitError{What: "documents in one request", Max: MaxDocuments}
			}
			d := &Document{Set: set, Caller: caller, Text: bytes.TrimLeft(text.Text, "\r\n")}
			key, ok, err := d.read(opts, at, wrong)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			if before, twice := seen[key]; twice {
				wrong.add(at, "%s is at %s already", key, before)
				continue
			}
			seen[key] = at
			drafts = append(drafts, Draft{d, at})
		}
		if count == 0 {
			wrong.add(Place{File: file.Name, Line: 1}, "it has no document")
		}
	}
	if len(wrong.Problems) > 0 {
		return nil, wrong
	}
	return drafts, nil
}

// read parses a document of a request, and finds its key.
func (d *Document) read(opts Options, at Place, wrong *InvalidError) (Key, bool, error) {
	d.Digest = DigestOf(d.Text)
	// The name of the origin has the key, which the text has.
	if err := d.Parse(opts); err != nil {
		return Key{}, false, err
	}
	for _, f := range d.Origin.Findings {
		if f.Severity == manifest.Error {
			field := f.Field
			if field != "" {
				field += ": "
			}
			wrong.add(at, "%s%s", field, f.Message)
		}
	}
	key, ok := keyIn(d.Origin, opts.Node)
	if d.Origin.Held || !ok {
		if len(wrong.Problems) == 0 {
			wrong.add(at, "it is no pod, ConfigMap, Secret or PersistentVolumeClaim")
		}
		return Key{}, false, nil
	}
	if !IsKind(key.Kind) {
		wrong.add(at, "kind: a %s can't be applied: it has no namespace; put it into a file of podconfigd's manifests", key.Kind)
		return Key{}, false, nil
	}
	d.Key = key
	d.Origin.Name = d.OriginName()
	return key, true, nil
}
