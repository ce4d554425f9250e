package differential

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/podstream/podstream/test/parsepods/wire"
)

// Kind is the kind of a difference between the results for one manifest.
type Kind int

const (
	// RefusedThere: the kubelet rejects the pod, and Podstream doesn't.
	RefusedThere Kind = iota
	// RefusedHere: Podstream rejects the pod, and the kubelet doesn't.
	RefusedHere
	// Content: a field of the resulting pod has another value.
	Content
)

func (k Kind) String() string {
	return [...]string{"refused by the kubelet", "refused by Podstream", "content"}[k]
}

// PodDifference is one difference between the results for a manifest.
type PodDifference struct {
	Kind Kind
	// Field is the path of the field that was rejected, or that differs.
	Field string
	// Message is the reason of the rejection. Kubelet and Podstream are the different values.
	Message            string
	Kubelet, Podstream any
}

func (d PodDifference) String() string {
	if d.Kind == Content {
		return fmt.Sprintf("content: %s: the kubelet's %s, Podstream's %s", d.Field, jsonText(d.Kubelet), jsonText(d.Podstream))
	}
	return fmt.Sprintf("%s: %s: %s", d.Kind, d.Field, d.Message)
}

// absent is the value of a field that one of the pods doesn't have.
type absent struct{}

func jsonText(value any) string {
	if value == (absent{}) {
		return "nothing"
	}
	// The value came from JSON.
	text, _ := json.Marshal(value)
	return string(text)
}

// ComparePod returns the differences between the kubelet's and Podstream's results for a manifest.
func ComparePod(kubelet KubeletResult, podstream wire.Answer) ([]PodDifference, error) {
	var differences []PodDifference
	switch {
	case len(podstream.Pods) == 0 && !podstream.Held:
		return nil, fmt.Errorf("podstream has neither a pod nor an error")
	case len(podstream.Pods) == 0 && kubelet.Err != nil:
		return nil, nil
	case len(podstream.Pods) == 0:
		for _, e := range podstream.Errors {
			differences = append(differences, PodDifference{Kind: RefusedHere, Field: e.Field, Message: e.Message})
		}
		return differences, nil
	case kubelet.Reference != "":
		differences = append(differences, PodDifference{Kind: RefusedThere, Message: "static pods may not reference " + kubelet.Reference})
	case len(kubelet.Invalid) > 0:
		for _, e := range kubelet.Invalid {
			differences = append(differences, PodDifference{Kind: RefusedThere, Field: e.Field, Message: e.ErrorBody()})
		}
		return differences, nil
	case kubelet.Err != nil:
		return append(differences, PodDifference{Kind: RefusedThere, Message: kubelet.Err.Error()}), nil
	}
	text, err := json.Marshal(kubelet.Pod)
	if err != nil {
		return nil, err
	}
	theirs, err := flattened(text)
	if err != nil {
		return nil, err
	}
	ours, err := flattened(podstream.Pods[0])
	if err != nil {
		return nil, err
	}
	return append(differences, contentDifferences(theirs, ours)...), nil
}

// contentDifferences compares pods field by field.
func contentDifferences(kubelet, podstream map[string]any) []PodDifference {
	var differences []PodDifference
	for _, path := range sortedKeys(kubelet) {
		if ours, ok := podstream[path]; !ok {
			differences = append(differences, PodDifference{Kind: Content, Field: path, Kubelet: kubelet[path], Podstream: absent{}})
		} else if ours != kubelet[path] {
			differences = append(differences, PodDifference{Kind: Content, Field: path, Kubelet: kubelet[path], Podstream: ours})
		}
	}
	for _, path := range sortedKeys(podstream) {
		if _, ok := kubelet[path]; !ok {
			differences = append(differences, PodDifference{Kind: Content, Field: path, Kubelet: absent{}, Podstream: podstream[path]})
		}
	}
	slices.SortStableFunc(differences, func(a, b PodDifference) int { return strings.Compare(a.Field, b.Field) })
	return differences
}

// flattened returns the single values of a JSON object by their paths. Empty objects and lists are values.
// Nulls aren't.
func flattened(text []byte) (map[string]any, error) {
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	flat := map[string]any{}
	var walk func(path []any, value any)
	walk = func(path []any, value any) {
		switch value := value.(type) {
		case nil:
		case map[string]any:
			if len(value) == 0 {
				flat[pathText(path)] = "{}"
			}
			for key, v := range value {
				walk(append(slices.Clip(path), key), v)
			}
		case []any:
			if len(value) == 0 {
				flat[pathText(path)] = "[]"
			}
			for i, v := range value {
				walk(append(slices.Clip(path), i), v)
			}
		default:
			flat[pathText(path)] = value
		}
	}
	walk(nil, tree)
	return flat, nil
}
