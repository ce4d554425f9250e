package expression_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/podctl/expression"
)

// pods is a list as kubectl prints it.
func pods(t *testing.T) any {
	t.Helper()
	type object = map[string]any
	doc, err := expression.Document(object{"kind": "List", "items": []any{
		object{"metadata": object{"name": "web", "labels": object{"app.kubernetes.io/name": "w"}}, "spec": object{"containers": []any{
			object{"name": "app", "image": "i1"}, object{"name": "side", "image": "i2"},
		}}, "status": object{"restarts": 1234567, "ready": true, "memory": "100Mi"}},
		object{"metadata": object{"name": "db"}, "status": object{"restarts": 9, "ready": false, "memory": "1Gi", "data": "aGk="}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestPrinters(t *testing.T) {
	for _, tc := range []struct {
		parse      func(string) (expression.Printer, error)
		text, want string
	}{
		{expression.JSONPath, "{.items[*].metadata.name}", "web db"},
		{expression.JSONPath, `{range .items[*]}{.metadata.name}{"\t"}{.status.restarts}{"\n"}{end}`, "web\t1234567\ndb\t9\n"},
		{expression.JSONPath, `{.items[?(@.status.restarts>10)].metadata.name}`, "web"},
		{expression.JSONPath, `{.items[0].metadata.labels.app\.kubernetes\.io/name}`, "w"},
		{expression.JSONPath, `{.items[0].spec.containers[*].image}`, "i1 i2"},
		{expression.JSONPath, `{.items[*].missing}`, ""},
		{expression.JSONPath, `plain`, "plain"},
	} {
		p, err := tc.parse(tc.text)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		for range 2 { // A printer prints several documents.
			var b strings.Builder
			if err := p.Print(&b, pods(t)); err != nil || b.String() != tc.want {
				t.Errorf("%s prints %q, error %v; want %q", tc.text, b.String(), err, tc.want)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	path := func(text string) error { _, err := expression.ParsePath(text); return err }
	columns := func(text string) error { _, err := expression.ParseColumns(text); return err }
	jsonPath := func(text string) error { _, err := expression.JSONPath(text); return err }
	for _, tc := range []struct {
		parse      func(string) error
		text, want string
	}{
		{jsonPath, "", "is empty"}, {jsonPath, "{.items[}", "JSONPath template"}, {jsonPath, "{.items", "unclosed"},
		{path, "", "want a path to one field"}, {path, "{.a", "closing brace"}, {path, "{.a}{.b}", "want a path to one field"}, {path, ".a[", "path .a["},
		{columns, "", "want NAME:PATH"}, {columns, "NAME", "want NAME:PATH"}, {columns, ":.a", "want NAME:PATH"}, {columns, "A:.a,B:", "column B"},
	} {
		if err := tc.parse(tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v; want %q", tc.text, err, tc.want)
		}
	}
}

func TestColumns(t *testing.T) {
	c, err := expression.ParseColumns("NAME:.metadata.name,IMAGES:{.spec.containers[*].image},RESTARTS:status.restarts,READY:.status.ready")
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(c.Headers)
	for _, item := range expression.Items(pods(t)) {
		row, err := c.Row(item)
		got += fmt.Sprint(row, err)
	}
	if want := "[NAME IMAGES RESTARTS READY][web i1,i2 1234567 true] <nil>[db <none> 9 false] <nil>"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestOrder(t *testing.T) {
	items := func(values ...any) (out []any) {
		for _, v := range values {
			item := map[string]any{}
			if v != nil {
				item["v"] = v
			}
			out = append(out, item)
		}
		return out
	}
	for _, tc := range []struct {
		items []any
		want  []int
	}{
		{items("b", "a", "c"), []int{1, 0, 2}},
		{items(int64(10), int64(9), float64(9.5)), []int{1, 2, 0}},
		{items(true, false), []int{1, 0}},
		{items("1Gi", "100Mi", "200Mi"), []int{1, 2, 0}},
		{items("x", nil, "a", nil), []int{1, 3, 2, 0}},
		{items("text", int64(1), true, map[string]any{}), []int{2, 1, 0, 3}},
		{items("same", "same"), []int{0, 1}},
		{nil, []int{}},
	} {
		path, err := expression.ParsePath(".v")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := expression.Order(path, tc.items); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%v: %v, %v; want %v", tc.items, got, err, tc.want)
		}
	}
	path, err := expression.ParsePath("{.metadata.nam}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := expression.Order(path, expression.Items(pods(t))); err == nil || !strings.Contains(err.Error(), "no item has a field {.metadata.nam}") {
		t.Errorf("a wrong path: %v", err)
	}
}

func TestItems(t *testing.T) {
	for text, tc := range map[string]struct {
		doc  any
		want int
	}{
		"a list": {pods(t), 2}, "podctl's list": {map[string]any{"sources": []any{1, 2, 3}}, 3}, "an object": {map[string]any{"name": "x", "list": []any{1}}, 1},
		"a text": {"x", 1}, "an empty list": {map[string]any{"items": []any{}, "kind": "List"}, 0},
	} {
		if got := len(expression.Items(tc.doc)); got != tc.want {
			t.Errorf("%s has %d items, want %d", text, got, tc.want)
		}
	}
	for want, item := range map[string]any{"web": expression.Items(pods(t))[0], "file": map[string]any{"name": "file"}, "": "x"} {
		if got := expression.Name(item); got != want {
			t.Errorf("the name is %q, want %q", got, want)
		}
	}
}
