package manifest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

var urlOptions = Options{Origin: "https://config.example/pods", OriginKind: URLKind, Node: "node1"}

// items shows the items of a response: their names, numbers of pods and objects, and findings.
func items(t *testing.T, all []Item) []string {
	t.Helper()
	var lines []string
	for _, item := range all {
		checkItemOrigin(t, item)
		line := strings.TrimPrefix(item.Origin.Name, urlOptions.Origin)
		line += strings.Repeat(" pod", len(item.Origin.Pods)) + strings.Repeat(" object", len(item.Origin.Objects))
		if item.Origin.Held {
			line += " held"
		}
		if slices.ContainsFunc(item.Origin.Findings, func(f Finding) bool { return f.Severity == Ignored }) {
			line += " ignored"
		}
		if item.Nameless {
			line += " nameless"
		}
		lines = append(lines, line)
	}
	return lines
}

// namelessItems are so many of them, as items shows them.
func namelessItems(n int) []string {
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf("#item %d held nameless", i+1))
	}
	return lines
}

func checkItemOrigin(t *testing.T, item Item) {
	t.Helper()
	hasError := slices.ContainsFunc(item.Origin.Findings, func(f Finding) bool { return f.Severity == Error })
	if item.Origin.Held != hasError || item.Nameless && !item.Origin.Held {
		t.Errorf("item %+v has findings %+v", item, item.Origin.Findings)
	}
	for _, f := range item.Origin.Findings {
		if strings.Contains(f.Field, "items[") {
			t.Errorf("a finding of item %s tells its place: %s", item.Origin.Name, f.Field)
		}
	}
}

func TestParseItems(t *testing.T) {
	const (
		spec    = `"spec":{"containers":[{"name":"main","image":"nginx"}]}`
		service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n"
		role    = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: 'system:web'}\n"
	)
	document := func(apiVersion, kind, name string) string {
		return "---\napiVersion: " + apiVersion + "\nkind: " + kind + "\nmetadata: {name: " + name + "}\n"
	}
	podItem := func(meta string) string { return `{"metadata":{` + meta + `},` + spec + `}` }
	list := func(items ...string) string {
		return `{"apiVersion":"v1","kind":"PodList","items":[` + strings.Join(items, ",") + `]}`
	}
	for _, c := range []struct {
		name, data string
		strict     bool
		want       []string
	}{
		{"one document", smallPod, false, []string{"#default/web pod"}},
		{"documents", smallPod + "---\n# nothing\n---\n" + strings.Replace(smallPod, "name: web", "name: db\n  namespace: prod", 1), false,
			[]string{"#default/web pod", "#prod/db pod"}},
		{"objects", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: web}\n---\n" + smallPod, false,
			[]string{"#ConfigMap default/web object", "#Secret default/web object", "#default/web pod"}},
		{"a list", list(podItem(`"name":"a"`), podItem(`"name":"b","namespace":""`), podItem(`"name":"c","namespace":"n"`)), false,
			[]string{"#default/a pod", "#default/b pod", "#n/c pod"}},
		{"an empty list", list(), false, nil},
		{"a null list", `{"apiVersion":"v1","kind":"PodList","items":null}`, false, nil},
		{"lists and documents", list(podItem(`"name":"a"`)) + "\n---\n" + smallPod + "---\n" + list("7"), false,
			[]string{"#default/a pod", "#default/web pod", "#item 3 held nameless"}},
		{"one name twice", list(podItem(`"name":"a"`), podItem(`"name":"a"`), `{"metadata":{"name":"a"}}`), false,
			[]string{"#default/a pod", "#default/a (2) pod", "#default/a (3) held"}},
		{"bad ones", list(`{"metadata":{"name":"a"}}`, `null`, `{"kind":"Job","metadata":{"name":"a"}}`, podItem(`"name":"A"`),
			podItem(`"name":"a","namespace":"a.b"`), podItem(`"name":"b"`)), false, []string{"#default/a held", "#item 2 held nameless",
			"#item 3 held nameless", "#item 4 held nameless", "#item 5 held nameless", "#default/b pod"}},
		{"another kind", smallPod + service, false, []string{"#default/web pod", "#Service default/web ignored"}},
		{"another kind, strictly", smallPod + service, true, []string{"#default/web pod", "#Service default/web held"}},
		{"other kinds only", service + role, false,
			[]string{"#Service default/web ignored", "#ClusterRole default/system:web ignored", " held nameless"}},
		{"other kinds beside an empty list", list() + "\n" + service, false, []string{"#Service default/web ignored"}},
		{"what may be misspelt", document("v1", "pod", "a") + document("v1", "Podd", "a") + document("v1", "Services", "a") +
			document("apps/v1", "Pod", "a") + document("v2", "Service", "a") + document("apps/v1", "PodList", "a") + document("v1", "List", "a") +
			document("/v1", "Role", "a") + document("x/v1", "a role", "a") + document("v1", "Service", "a b") + document("v1", "Status", "a"),
			false, namelessItems(11)},
		{"two documents without a separator", smallPod + strings.TrimPrefix(service, "---\n"), false, []string{"#item 1 held nameless"}},
		{"no list after all", `{"apiVersion":"v1","kind":"PodList","items":{}}`, false, []string{"#item 1 held nameless"}},
		{"nothing", "# nothing\n---\n", false, []string{" held nameless"}},
		{"a broken document", smallPod + "---\n}{\n", false, []string{"#default/web pod", "#item 2 held nameless"}},
		{"a doubled key", list(podItem(`"name":"a","name":"b"`), podItem(`"name":"c"`)), false, []string{"#default/b pod", "#default/c pod"}},
		{"a doubled key, strictly", list(podItem(`"name":"a","name":"b"`), podItem(`"name":"c"`)), true, []string{"#default/b held", "#default/c pod"}},
		{"too many doubled keys", "apiVersion: v1\nkind: PodList\nx: {" + strings.Repeat("a: 1, ", 200) + "b: 1}\nitems: [" + podItem(`"name":"a"`) + "]\n",
			false, []string{"#default/a pod", ""}},
		{"too many doubled keys, strictly", "apiVersion: v1\nkind: PodList\nx: {" + strings.Repeat("a: 1, ", 200) + "b: 1}\nitems: [" +
			podItem(`"name":"a"`) + "]\n", true, []string{"#item 1 held nameless"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts := urlOptions
			opts.Strict = c.strict
			all := ParseItems([]byte(c.data), opts, nil)
			if got := items(t, all); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for i, item := range ParseItems([]byte(c.data), opts, all) {
				if item.Origin != all[i].Origin {
					t.Errorf("item %s is another one the second time", item.Origin.Name)
				}
			}
			for i, item := range ParseItems([]byte("---\n"+c.data), opts, all) {
				if len(item.Origin.Findings) == 0 && item.Origin != all[i].Origin {
					t.Errorf("good item %s is another one a line further down", item.Origin.Name)
				}
			}
		})
	}
}

// TestItemsFindingsAreNew: the lines in findings are those of the current response.
func TestItemsFindingsAreNew(t *testing.T) {
	finding := func(text string, former []Item, item int) (string, []Item) {
		t.Helper()
		all := ParseItems([]byte(text), urlOptions, former)
		if item >= len(all) || len(all[item].Origin.Findings) == 0 {
			return "", all
		}
		return all[item].Origin.Findings[0].Message, all
	}
	first, all := finding(smallPod+"---\n}{\n", nil, 1)
	second, _ := finding("# another line\n"+smallPod+"---\n}{\n", all, 1)
	if first == second || !strings.Contains(second, "line 10") {
		t.Errorf("the line was told as %q, and a line further down as %q", first, second)
	}
	const spec = `"spec":{"containers":[{"name":"main","image":"nginx"}]}`
	list := `{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a","name":"b"},` + spec + `}]}`
	first, all = finding(list, nil, 0)
	second, _ = finding(strings.Replace(list, `"name":"a",`, "", 1), all, 0)
	if !strings.Contains(first, "is set twice") || second != "" {
		t.Errorf("a doubled key was told as %q, and as %q after it was mended", first, second)
	}
}

// TestItemsArePods: a pod of an item is the same as from Parse.
func TestItemsArePods(t *testing.T) {
	const text = smallPod + "---\n" + `{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"db"},"spec":{"containers":[{"name":"a","image":"b"}]}}]}`
	var got []string
	for _, item := range ParseItems([]byte(text), urlOptions, nil) {
		for _, p := range item.Origin.Pods {
			got = append(got, fmt.Sprint(p.UID, p.Name, p.SpecDigest))
		}
	}
	var want []string
	for _, p := range Parse([]byte(text), urlOptions).Pods {
		want = append(want, fmt.Sprint(p.UID, p.Name, p.SpecDigest))
	}
	if len(want) != 2 || !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestManyItems: the cost of a list is bounded, however long it is.
func TestManyItems(t *testing.T) {
	const head = `{"apiVersion":"v1","kind":"PodList","items":[`
	all := ParseItems([]byte(head+strings.Repeat("{},", 100)+"{}]}"), urlOptions, nil)
	if len(all) != maxNameless+1 || !strings.Contains(all[maxNameless].Origin.Findings[0].Message, "81 more of its items") {
		t.Errorf("%d items, the last one %+v", len(all), all[len(all)-1].Origin)
	}
	all = ParseItems([]byte(head+strings.Repeat("{},", 1<<18-100)+"{}]}"), urlOptions, nil)
	if last := all[len(all)-1]; len(all) != maxNameless+1 || !last.Nameless || len(last.Origin.Findings) != 2 {
		t.Errorf("%d items, the last one %+v", len(all), all[len(all)-1].Origin)
	}
	all = ParseItems(make([]byte, MaxSize+1), urlOptions, nil)
	if len(all) != 1 || !all[0].Nameless || !strings.Contains(all[0].Origin.Findings[0].Message, "larger than 10 MiB") {
		t.Errorf("a response that is too large: %+v", all)
	}
}
