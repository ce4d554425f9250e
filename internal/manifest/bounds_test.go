package manifest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/manifest"
)

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestValueBombs: a document of very many small values is refused before it is decoded, in each style of YAML and as
// JSON, and in a list.
func TestValueBombs(t *testing.T) {
	for name, text := range map[string]string{
		"block sequence":     "a:\n" + strings.Repeat("- -\n", 2_600_000),
		"flow sequence":      "a: [" + strings.Repeat("[],", 3_400_000) + "[]]\n",
		"flow mappings":      "a: [" + strings.Repeat("{},", 3_400_000) + "{}]\n",
		"commas":             "a: [" + strings.Repeat("1,", 5_000_000) + "1]\n",
		"block mapping":      strings.Repeat("a:\n", 3_400_000),
		"complex keys":       strings.Repeat("?\n", 5_000_000),
		"nested dashes":      "a:\n" + strings.Repeat(strings.Repeat("- ", 50)+"\n", 100_000),
		"dashes with tabs":   "a:\n" + strings.Repeat("-\t\n", 3_400_000),
		"next lines":         "a:\n" + strings.Repeat("-\u0085", 3_400_000),
		"line separators":    "a:\n" + strings.Repeat("-\u2028", 2_600_000),
		"paragraphs":         "a:\n" + strings.Repeat("-\u2029", 2_600_000),
		"JSON":               `{"a":[` + strings.Repeat("[],", 3_400_000) + "[]]}",
		"JSON objects":       `{"a":[` + strings.Repeat(`{"a":1},`, 1_200_000) + "1]}",
		"JSON-like YAML":     `{"a":[` + strings.Repeat("[],", 3_400_000) + "[],]}",
		"a document of many": "---\n# nothing\n---\na:\n" + strings.Repeat("- -\n", 2_600_000) + "---\n",
	} {
		t.Run(name, func(t *testing.T) {
			var findings []manifest.Finding
			took := allocated(func() {
				findings = manifest.Parse([]byte(text), manifest.Options{Origin: "/f", Node: "n"}).Findings
			})
			if len(findings) != 1 || !strings.Contains(findings[0].Message, "too many values") {
				t.Errorf("the findings are %.300v; want too many values", findings)
			}
			if took > 32<<20 {
				t.Errorf("%d MiB are allocated for %d bytes that are refused; want 32 at most", took>>20, len(text))
			}
			items := manifest.ParseItems([]byte(text), manifest.Options{Origin: "/f", Node: "n", OriginKind: manifest.URLKind}, nil)
			if len(items) == 0 || !items[0].Origin.Held {
				t.Errorf("as a response it has the items %v; want one that is held", items)
			}
		})
	}
}

// TestBelowBombs: realistic documents are far below the bounds: a large list, and text that looks like YAML in a
// ConfigMap.
func TestBelowBombs(t *testing.T) {
	var list strings.Builder
	list.WriteString(`{"apiVersion":"v1","kind":"PodList","items":[`)
	for i := range 3000 {
		if i > 0 {
			list.WriteString(",")
		}
		fmt.Fprintf(&list, `{"metadata":{"name":"p%d","labels":{"a":"b","c":"d"},"annotations":{"note":%q}},"spec":{"containers":[{"name":"c",`+
			`"image":"registry.example/i:1","args":["--a","--b","--c"],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],`+
			`"resources":{"limits":{"cpu":"1","memory":"1Gi"}}}]}}`, i, strings.Repeat("x", 2000))
	}
	list.WriteString("]}")
	items := manifest.ParseItems([]byte(list.String()), manifest.Options{Origin: "http://x", Node: "n", OriginKind: manifest.URLKind}, nil)
	if len(items) != 3000 || items[0].Origin.Held || len(items[0].Origin.Pods) != 1 {
		t.Errorf("a list of %d bytes has %d items; want 3000 good ones", list.Len(), len(items))
	}
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dashboard}\ndata:\n  json: |\n" +
		strings.Repeat("    {\"title\": \"requests\", \"targets\": [\"a\", \"b\"], \"unit\": \"short\"},\n", 14_000)
	o := manifest.Parse([]byte(text), manifest.Options{Origin: "/f", Node: "n"})
	if len(o.Objects) != 1 || o.Held {
		t.Errorf("a ConfigMap of %d bytes has the findings %.300v; want it taken", len(text), o.Findings)
	}
}

// TestNearTheLimits: documents at the API server's own limits are accepted: lists of pods as it sends them, up to
// MaxSize, and ConfigMaps of 1 MiB of any text.
func TestNearTheLimits(t *testing.T) {
	fields := `"f:metadata":{"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"1\"}":{}}},`
	for _, c := range []struct{ pods, size int }{{1000, 10_200}, {110, 95_000}} {
		var list strings.Builder
		list.WriteString(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`)
		for i := range c.pods {
			if i > 0 {
				list.WriteString(",")
			}
			begin := list.Len()
			fmt.Fprintf(&list, `{"metadata":{"name":"p%d","namespace":"default","managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1",`+
				`"fieldsType":"FieldsV1","fieldsV1":{`, i)
			for n := 0; list.Len()-begin < c.size/3; n++ {
				fmt.Fprintf(&list, `"f:x%d":{%s".":{}},`, n, fields)
			}
			list.WriteString(`".":{}}}]},"spec":{"containers":[{"name":"c","image":"registry.example/i:1","env":[`)
			for n := 0; list.Len()-begin < c.size-200; n++ {
				fmt.Fprintf(&list, `{"name":"VARIABLE_%d","value":"the value of the variable"},`, n)
			}
			list.WriteString(`{"name":"LAST","value":"1"}],"resources":{"limits":{"cpu":"1","memory":"1Gi"}}}]}}`)
		}
		list.WriteString("]}")
		if list.Len() > manifest.MaxSize || list.Len() < manifest.MaxSize-1<<19 {
			t.Fatalf("the list has %d bytes", list.Len())
		}
		var items []manifest.Item
		took := allocated(func() {
			items = manifest.ParseItems([]byte(list.String()), manifest.Options{Origin: "http://x", Node: "n", OriginKind: manifest.URLKind}, nil)
		})
		t.Logf("a list of %d pods: %d MiB", c.pods, took>>20)
		if len(items) != c.pods || items[0].Origin.Held || len(items[0].Origin.Pods) != 1 {
			t.Errorf("a list of %d bytes has %d items, the first %.300v; want %d good ones", list.Len(), len(items), items[0].Origin.Findings, c.pods)
		}
	}
	data := strings.Repeat("[1,2,3],{\"a\":1},", 60_000)
	lines := strings.ReplaceAll(strings.Repeat("[1,2,3],{\"a\":1},\n", 60_000), "\n", "\n    ")
	quoted := strings.ReplaceAll(data, `"`, `\"`)
	for name, text := range map[string]string{
		"a block scalar":   "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  labels: {}\ndata:\n  a.json: |\n    " + lines + "\n",
		"one line":         "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  a.json: |-\n    " + data + "\n",
		"quotes":           "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  a.json: \"" + quoted + "\"\n",
		"single quotes":    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  a.json: '" + data + "'\n",
		"data comes first": "data:\n  a.json: '" + data + "'\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n",
		"JSON":             `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a.json":"` + quoted + `"}}`,
	} {
		o := manifest.Parse([]byte(text), manifest.Options{Origin: "/f", Node: "n"})
		if len(o.Objects) != 1 || o.Held {
			t.Errorf("a ConfigMap of %d bytes as %s has the findings %.300v; want it taken", len(text), name, o.Findings)
		}
	}
}

// TestLargestDocuments: the most that a document can make the decoder allocate.
func TestLargestDocuments(t *testing.T) {
	const most = 600 << 20
	for name, text := range map[string]string{
		"block sequence": "a:\n" + strings.Repeat("- -\n", 130_000),
		"flow sequence":  "a: [" + strings.Repeat("[],", 130_000) + "[]]\n",
		"block mapping":  "a:\n" + strings.Repeat("- a: b\n", 130_000),
		"keys":           strings.Repeat("a:\n", 262_000),
		"JSON objects":   `{"a":[` + strings.Repeat(`{"a":1},`, 349_000) + "1]}",
		"JSON arrays":    `{"a":[` + strings.Repeat(`[],`, 1_000_000) + "1]}",
		"JSON numbers":   `{"a":[` + strings.Repeat(`1,`, 3_100_000) + "1]}",
		"JSON keys":      `{` + strings.Repeat(`"":1,`, 1_500_000) + `"a":1}`,
		"JSON empties":   `{"a":[` + strings.Repeat(`{},`, 1_500_000) + "1]}",
	} {
		t.Run(name, func(t *testing.T) {
			took := allocated(func() { manifest.Parse([]byte(text), manifest.Options{Origin: "/f", Node: "n"}) })
			t.Logf("%d bytes: %d MiB", len(text), took>>20)
			if took > most {
				t.Errorf("%d MiB are allocated for %d bytes; want %d at most", took>>20, len(text), most>>20)
			}
		})
	}
}
