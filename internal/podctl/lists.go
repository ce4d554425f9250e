package podctl

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/podctl/expression"
	"github.com/podstream/podstream/internal/podctl/render"
)

// listing are the flags of commands that print lists.
type listing struct {
	noHeaders bool
	sortBy    fieldPath
}

// fieldPath is the value of --sort-by. Its path is nil if the flag isn't given.
type fieldPath struct{ *expression.Path }

// String implements pflag.Value.
func (p *fieldPath) String() string {
	if p.Path == nil {
		return ""
	}
	return p.Text
}

// Type implements pflag.Value.
func (p *fieldPath) Type() string { return "path" }

// Set implements pflag.Value.
func (p *fieldPath) Set(text string) error {
	path, err := expression.ParsePath(text)
	p.Path = path
	return err
}

// addNoHeadersFlag adds --no-headers.
func (t *tool) addNoHeadersFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&t.listing.noHeaders, "no-headers", false, "print no names of columns")
}

// addListFlags adds the flags of a command that prints a list. Its tables come from newTable, its documents from documents, and
// its items pass sorted.
func (t *tool) addListFlags(flags *pflag.FlagSet) {
	t.addNoHeadersFlag(flags)
	flags.Var(&t.listing.sortBy, "sort-by", "sort by this field of each item of -o json: a JSONPath `expression` such as .metadata.name")
}

// newTable returns a table with the command's flags.
func (t *tool) newTable(header ...string) *render.Table {
	if t.listing.noHeaders {
		return render.NewTable(t.Stdout)
	}
	return render.NewTable(t.Stdout, header...)
}

// documents returns a printer of documents with the command's flags. kind is the kind of the items in `-o name`; empty: they
// have no names.
func (t *tool) documents(kind string) *render.Documents {
	return &render.Documents{Out: t.Stdout, Format: t.output, Kind: kind, NoHeaders: t.listing.noHeaders}
}

// documentStream is documents for a document after each change.
func (t *tool) documentStream(kind string) *render.Documents {
	d := t.documents(kind)
	d.Stream = true
	return d
}

// errSortedWatch is a usage error.
var errSortedWatch = errors.New("--sort-by sorts a list: a watch has the order of the changes")

// checkSorted refuses --sort-by for a watch.
func (t *tool) checkSorted(watch bool) error {
	if watch && t.listing.sortBy.Path != nil {
		return errSortedWatch
	}
	return nil
}

// sorted returns the items in the order of --sort-by, or as they are. document returns an item as -o json prints it.
func sorted[T any](t *tool, items []T, document func(T) any) ([]T, error) {
	if t.listing.sortBy.Path == nil {
		return items, nil
	}
	documents := make([]any, len(items))
	for i, item := range items {
		var err error
		if documents[i], err = expression.Document(document(item)); err != nil {
			return nil, err
		}
	}
	order, err := expression.Order(t.listing.sortBy.Path, documents)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(items))
	for i, from := range order {
		out[i] = items[from]
	}
	return out, nil
}
