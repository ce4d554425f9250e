package migration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// The bounds of a list of pods, of all its pages together. An item takes a multiple of its text: an element of a list is 3 bytes of
// JSON, and a container 1 KiB.
const (
	// MaxPods is the maximum size of the list, in bytes.
	MaxPods = 64 << 20
	// maxItems is the maximum number of its items, the pods of other nodes included.
	maxItems = 1 << 17
	// maxItem is the maximum size of one item, in bytes: several times that of a pod that podconfigd accepts.
	maxItem = 8 << 20
	// maxKept and maxKeptSize are the maximum number of the node's pods, and of the bytes of their JSON: more than any node has.
	maxKept, maxKeptSize = 1 << 14, 16 << 20
	// maxElements is the maximum number of elements of lists within the node's pods, and maxValues that of all values: a pod has about
	// a hundred elements and a thousand values.
	maxElements, maxValues = 1 << 17, 1 << 19
	// maxContainers is the maximum number of containers of one pod.
	maxContainers = 1000
)

// errTooLarge is the error of reading a list that is larger than MaxPods.
var errTooLarge = fmt.Errorf("the list of pods is larger than %d MiB", MaxPods>>20)

// podList has the node's pods of a list. It decodes one item at a time, and drops those of other nodes undecoded.
type podList struct {
	node string
	// left is the number of bytes that may still be read.
	left int64
	// items is the number of items so far. size, elements and values are those of the kept ones.
	items, size, elements, values int
	kept                          []*v1.Pod
}

// page is what a page has beside the items.
type page struct {
	kind, next string
	// items is the number of its items.
	items int
}

func newPodList(node string) *podList { return &podList{node: node, left: MaxPods} }

// read reads one page of the list.
func (l *podList) read(ctx context.Context, text io.Reader) (page, error) {
	var out page
	dec := json.NewDecoder(&boundedReader{ctx: ctx, from: text, left: &l.left})
	if err := expect(dec, json.Delim('{')); err != nil {
		return out, err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return out, err
		}
		switch key {
		case "kind":
			err = dec.Decode(&out.kind)
		case "metadata":
			var meta struct {
				Continue string `json:"continue"`
			}
			err = dec.Decode(&meta)
			out.next = meta.Continue
		case "items":
			before := l.items
			err = l.readItems(ctx, dec)
			out.items += l.items - before
		default:
			err = dec.Decode(new(json.RawMessage))
		}
		if err != nil {
			return out, err
		}
	}
	if err := expect(dec, json.Delim('}')); err != nil {
		return out, err
	}
	switch _, err := dec.Token(); {
	case err == nil:
		return out, errors.New("text follows the list")
	case !errors.Is(err, io.EOF):
		return out, err
	}
	return out, nil
}

// expect reads a token, and refuses another one.
func expect(dec *json.Decoder, want json.Token) error {
	got, err := dec.Token()
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	case got != want:
		return fmt.Errorf("want %q, not %.40q", want, fmt.Sprint(got))
	}
	return nil
}

func (l *podList) readItems(ctx context.Context, dec *json.Decoder) error {
	switch start, err := dec.Token(); {
	case err != nil:
		return err
	case start == nil:
		return nil
	case start != json.Delim('['):
		return errors.New("its items are no list")
	}
	for dec.More() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if l.items++; l.items > maxItems {
			return fmt.Errorf("it has more than %d items", maxItems)
		}
		var item json.RawMessage
		if err := dec.Decode(&item); err != nil {
			return err
		}
		if err := l.item(item); err != nil {
			return fmt.Errorf("items[%d] %w", l.items-1, err)
		}
	}
	return expect(dec, json.Delim(']'))
}

// item keeps the item if it is a pod of the node.
func (l *podList) item(text json.RawMessage) error {
	if len(text) > maxItem {
		return fmt.Errorf("is larger than %d MiB", maxItem>>20)
	}
	var head struct {
		Kind string `json:"kind"`
		Spec struct {
			NodeName string `json:"nodeName"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("is no pod: %w", err)
	}
	if head.Kind != "" && head.Kind != "Pod" {
		return fmt.Errorf("is of kind %.40q", head.Kind)
	}
	if head.Spec.NodeName != l.node {
		return nil
	}
	elements, values := count(text)
	l.size, l.elements, l.values = l.size+len(text), l.elements+elements, l.values+values
	switch {
	case len(l.kept) == maxKept:
		return fmt.Errorf("is beyond %d pods of the node", maxKept)
	case l.size > maxKeptSize:
		return fmt.Errorf("is beyond %d MiB of pods of the node", maxKeptSize>>20)
	case l.elements > maxElements:
		return fmt.Errorf("is beyond %d list elements in the pods of the node", maxElements)
	case l.values > maxValues:
		return fmt.Errorf("is beyond %d values in the pods of the node", maxValues)
	}
	pod := &v1.Pod{}
	if err := json.Unmarshal(text, pod); err != nil {
		return fmt.Errorf("is no pod: %w", err)
	}
	if n := len(podmeta.Containers(pod)); n > maxContainers {
		return fmt.Errorf("has %d containers; at most %d are compared", n, maxContainers)
	}
	pod.ManagedFields = nil
	l.kept = append(l.kept, pod)
	return nil
}

// count returns at least the number of elements of the lists in a valid JSON text, and of its values.
func count(text []byte) (elements, values int) {
	var open []byte
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if values++; c == '[' {
				elements++
			}
			open = append(open, c)
		case c == ']' || c == '}':
			open = open[:len(open)-1]
		case c == ',':
			if values++; open[len(open)-1] == '[' {
				elements++
			}
		}
	}
	return elements, values
}

// boundedReader reads while ctx lasts, and at most left bytes: more are errTooLarge.
type boundedReader struct {
	ctx  context.Context //nolint:containedctx // A Reader of one call.
	from io.Reader
	left *int64
}

// Read is part of io.Reader.
func (r *boundedReader) Read(p []byte) (int, error) {
	switch {
	case r.ctx.Err() != nil:
		return 0, context.Cause(r.ctx)
	case *r.left <= 0:
		// The text may end exactly there.
		if n, err := r.from.Read(make([]byte, 1)); n == 0 {
			return 0, err
		}
		return 0, errTooLarge
	}
	// The decoder looks again at all white space after each read, so it gets as much as it has room for.
	n, err := io.ReadFull(r.from, p[:min(int64(len(p)), *r.left)])
	if *r.left -= int64(n); errors.Is(err, io.ErrUnexpectedEOF) && n > 0 {
		err = nil // The next read has the end.
	}
	return n, err
}
