package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxNameless is how many items without a readable name get an origin. More origins wouldn't help a reader.
const maxNameless = 20

// Item is one object of a response, with an origin of its own: a document, or an item of a list.
type Item struct {
	// Origin is named by the object as it is written: Options.Origin and "#NAMESPACE/NAME" for a pod, "#KIND
	// NAMESPACE/NAME" for another object, "#KIND NAME" for one without a namespace, with " (2)" after it for the second of that name. An item whose name can't
	// be read has "#item N", its index counted from 1. Findings on the response as a whole are in an origin that is
	// named Options.Origin.
	Origin *Origin
	// Nameless is set if the item can't be used and may be any object that the response had before.
	Nameless bool

	// sum identifies the texts that the origin was made from.
	sum [sha256.Size]byte
}

// ParseItems is Parse with one origin for each object, so that each is held by itself. The names are unique. An item
// of former whose text and name didn't change is the same pointer. No items at all means that there is an empty list.
//
// A document that is certainly an object of a kind that isn't read, such as a Service among the pods, holds nothing:
// it is Ignored (for Options.Strict it is an error). A response with only such documents is an error as a whole.
func ParseItems(data []byte, opts Options, former []Item) []Item {
	p := &itemParser{opts: opts, former: make(map[string]Item, len(former)), names: map[string]int{}}
	p.whole = &parser{opts: opts, origin: &Origin{Name: opts.Origin}}
	for _, item := range former {
		p.former[item.Origin.Name] = item
	}
	if len(data) > MaxSize {
		p.whole.report(0).errorf("", "it is larger than %d MiB", MaxSize>>20)
		return p.finish()
	}
	defer waitTurn(len(data))()
	documents := 0
	for d := range split(data) {
		if d.read(); d.empty {
			continue
		}
		if documents++; !p.document(d, documents) {
			p.whole.report(0).errorf("", "it has more than %d items: the rest isn't read", maxDocuments)
			break
		}
	}
	switch {
	case documents == 0:
		p.whole.report(0).errorf("", "the response is empty: it has no document; send a v1 PodList with \"items\": [] if all pods are to go")
	case documents == p.foreign:
		p.whole.report(0).errorf("", "it has no document of a kind that is read: send a v1 PodList with \"items\": [] if all pods are to go")
	}
	return p.finish()
}

// itemParser collects the items of one response.
type itemParser struct {
	opts   Options
	former map[string]Item
	items  []Item
	// count is the number of items, and names how many of them have each name.
	count int
	names map[string]int
	// nameless is the number of nameless items, including those that were left out.
	nameless int
	// foreign is the number of documents of kinds that aren't read.
	foreign int
	// whole has the findings on the response as a whole.
	whole *parser
}

// document reads one document. It returns false if there are too many items.
func (p *itemParser) document(d *document, number int) bool {
	tree, doubled, err := map[string]any(nil), d.doubled, d.err
	if err == nil {
		var found []doubledKey
		tree, found, err = decodeTree(d.json)
		doubled = append(found, doubled...)
	}
	if err == nil && p.isList(tree, doubled) {
		return p.list(tree, doubled, d, number)
	}
	hash := sha256.New()
	// The line of its marker may be empty or missing.
	hash.Write(bytes.TrimLeft(d.data, "\r\n"))
	if d.err != nil || len(d.doubled) > 0 {
		// The findings have line numbers.
		fmt.Fprintf(hash, "\nline %d", d.line)
	}
	sum := [sha256.Size]byte(hash.Sum(nil))
	if name := foreignIdentity(tree, doubled); name != "" {
		p.foreign++
		return p.add(sum, name, func(q *parser, r *report) { q.foreign(d, tree, r) })
	}
	return p.add(sum, identity(tree), func(q *parser, r *report) { q.document(d, r) })
}

// isList reports whether the items of a document can be read one by one.
func (p *itemParser) isList(tree map[string]any, doubled []doubledKey) bool {
	if apiVersion, kind, err := typeOf(tree); err != nil || apiVersion != "v1" || kind != "PodList" {
		return false
	}
	_, err := itemsOf(tree)
	return err == nil && (!p.opts.Strict || len(doubled) < maxDoubled)
}

func (p *itemParser) list(tree map[string]any, doubled []doubledKey, d *document, number int) bool {
	if d.moreDoubled > 0 {
		p.whole.report(number).warnf("", "%d keys are set twice: the last one of each counts", len(doubled)+d.moreDoubled)
	}
	// isList has checked them already.
	items, _ := itemsOf(tree)
	for i, item := range items {
		// What was decoded from JSON can be encoded.
		text, _ := json.Marshal(item)
		own := below(doubled, fmt.Sprintf("items[%d].", i))
		hash := sha256.New()
		hash.Write(text)
		for _, d := range own {
			fmt.Fprintf(hash, "\n%s %d", d.path, d.line)
		}
		// An item that isn't a pod has no identity.
		object, _ := checkItem(item)
		ok := p.add([sha256.Size]byte(hash.Sum(nil)), podIdentity(object), func(q *parser, r *report) {
			q.item(item, own, len(doubled) >= maxDoubled, r)
		})
		if !ok {
			return false
		}
	}
	return true
}

// add makes an item, unless there are too many. name is the object's identity, or empty.
func (p *itemParser) add(sum [sha256.Size]byte, name string, parse func(*parser, *report)) bool {
	if p.count == maxDocuments {
		return false
	}
	p.count++
	nameless := name == ""
	if nameless {
		name = fmt.Sprintf("item %d", p.count)
	}
	name = p.opts.Origin + "#" + name
	if p.names[name]++; p.names[name] > 1 {
		name = fmt.Sprintf("%s (%d)", name, p.names[name])
	}
	item, ok := p.former[name]
	if !ok || item.sum != sum {
		q := &parser{opts: p.opts, origin: &Origin{Name: name}}
		r := q.report(0)
		parse(q, r)
		r.close()
		q.close()
		item = Item{Origin: q.origin, Nameless: nameless && q.origin.Held, sum: sum}
	}
	if item.Nameless {
		if p.nameless++; p.nameless > maxNameless {
			return true
		}
	}
	p.items = append(p.items, item)
	return true
}

// finish adds the origin of the response as a whole, if it has findings.
func (p *itemParser) finish() []Item {
	if more := p.nameless - maxNameless; more > 0 {
		p.whole.report(0).errorf("", "%d more of its items can't be read", more)
	}
	p.whole.close()
	whole := p.whole.origin
	if len(whole.Findings) == 0 {
		return p.items
	}
	if old := p.former[whole.Name].Origin; old != nil && old.Held == whole.Held && slices.Equal(old.Findings, whole.Findings) {
		whole = old
	}
	return append(p.items, Item{Origin: whole, Nameless: whole.Held})
}

// identity names the object of a document, valid or not. Empty: the name can't be read.
func identity(tree map[string]any) string {
	apiVersion, kind, err := typeOf(tree)
	switch {
	case err != nil:
		return ""
	case apiVersion == "v1" && kind == "Pod":
		return podIdentity(tree)
	}
	object, ok := kindOf(apiVersion, kind)
	name := podIdentity(tree)
	switch {
	case !ok || name == "":
		return ""
	case object.Namespaced():
		return kind + " " + name
	}
	_, name, _ = strings.Cut(name, "/")
	return kind + " " + name
}

// podIdentity returns NAMESPACE/NAME. An invalid name isn't used, as it may be any object's misspelt name.
func podIdentity(tree map[string]any) string {
	meta, _ := tree["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	namespace, ok := meta["namespace"].(string)
	if meta["namespace"] == nil || ok && namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 || len(validation.IsDNS1123Label(namespace)) > 0 {
		return ""
	}
	return namespace + "/" + name
}
