package podctl

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/jsonpath"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// condition is the value of --for, in kubectl's syntax.
type condition struct {
	text string
	// created and deleted are set for "create" and "delete".
	created, deleted bool
	// met reports whether a pod that exists meets the condition. Nil for "create" and "delete".
	met func(pod *corev1.Pod) (bool, error)
}

const wantFor = "want condition=NAME[=VALUE], jsonpath='{EXPRESSION}'[=VALUE], create or delete"

// String implements pflag.Value.
func (c *condition) String() string { return c.text }

// Type implements pflag.Value.
func (c *condition) Type() string { return "condition" }

// Set implements pflag.Value.
func (c *condition) Set(text string) error {
	parsed, err := parseCondition(text)
	if err != nil {
		return err
	}
	*c = parsed
	c.text = text
	return nil
}

// parseCondition parses the value of --for.
func parseCondition(text string) (condition, error) {
	kind, rest, _ := strings.Cut(text, "=")
	switch {
	case strings.EqualFold(text, "delete"):
		return condition{deleted: true}, nil
	case strings.EqualFold(text, "create"):
		return condition{created: true}, nil
	case kind == "condition" && rest != "":
		name, value, given := strings.Cut(rest, "=")
		if !given {
			value = "true"
		}
		return condition{met: func(pod *corev1.Pod) (bool, error) { return hasCondition(pod, name, value), nil }}, nil
	case kind == "jsonpath" && rest != "":
		return parseJSONPath(rest)
	}
	return condition{}, errors.New(wantFor)
}

func hasCondition(pod *corev1.Pod, name, value string) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return strings.EqualFold(string(c.Type), name) && strings.EqualFold(string(c.Status), value)
	})
}

// parseJSONPath parses EXPRESSION[=VALUE]. Without a value, the expression must only have a result.
func parseJSONPath(text string) (condition, error) {
	expression, value, given := text, "", false
	if end := strings.LastIndex(text, "}"); end >= 0 {
		rest := strings.TrimLeft(text[end+1:], `'"`)
		if value, given = strings.CutPrefix(rest, "="); rest != "" && !given {
			return condition{}, errors.New(wantFor)
		}
		expression = strings.Trim(text[:end+1], `'"`)
	} else if expression, value, given = strings.Cut(text, "="); expression != "" {
		expression = "{." + strings.TrimPrefix(strings.Trim(expression, `'"`), ".") + "}"
	}
	value = strings.Trim(value, `'"`)
	if given && value == "" {
		return condition{}, errors.New("the value after jsonpath's expression is empty")
	}
	if known := []string{"{.status", "{.metadata.name}", "{.metadata.namespace}", "{.metadata.uid}"}; !slices.ContainsFunc(known, func(begin string) bool {
		return strings.HasPrefix(expression, begin)
	}) {
		return condition{}, fmt.Errorf("jsonpath %s: podexecd reports a pod's .status, and its .metadata.name, .namespace and .uid", expression)
	}
	path := jsonpath.New("for").AllowMissingKeys(true)
	if err := path.Parse(expression); err != nil {
		return condition{}, fmt.Errorf("jsonpath %s: %w", expression, err)
	}
	return condition{met: func(pod *corev1.Pod) (bool, error) { return matches(path, pod, value, given) }}, nil
}

// matches reports whether the expression has a result, and with given whether that is the value. As with kubectl, it is an
// error if it has several, or one that isn't a scalar.
func matches(path *jsonpath.JSONPath, pod *corev1.Pod, value string, given bool) (bool, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return false, fmt.Errorf("read the pod: %w", err)
	}
	lists, err := path.FindResults(object)
	switch {
	case err != nil:
		// An index that doesn't exist yet.
		return false, nil //nolint:nilerr // It may exist later.
	case len(lists) == 0 || len(lists[0]) == 0:
		return false, nil
	case len(lists) > 1:
		return false, errors.New("the jsonpath expression matches more than one list")
	case len(lists[0]) > 1:
		return false, errors.New("the jsonpath expression matches more than one value")
	case !given:
		return true, nil
	}
	result := lists[0][0].Interface()
	if kind := reflect.ValueOf(result).Kind(); kind == reflect.Map || kind == reflect.Slice {
		return false, errors.New("the jsonpath expression matches an object or a list; only a scalar can be compared")
	}
	return fmt.Sprint(result) == value, nil
}

// podOf returns what podexecd reports of a pod as an object.
func podOf(o *podexecv1.ObservedPod) (*corev1.Pod, error) {
	ref := o.GetRef()
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: ref.GetName(), Namespace: ref.GetNamespace(), UID: types.UID(ref.GetUid())},
	}
	if err := pod.Status.Unmarshal(o.GetProtobuf()); err != nil {
		return nil, fmt.Errorf("decode the status of pod %s: %w", ref.GetName(), err)
	}
	return pod, nil
}
