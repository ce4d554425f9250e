package execconfig

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// parseTaint parses key=value:effect; the value is optional.
func parseTaint(text string) (v1.Taint, error) {
	rest, effect, ok := strings.Cut(text, ":")
	if !ok || effect == "" {
		return v1.Taint{}, fmt.Errorf("%q isn't a taint; want key=value:effect", text)
	}
	key, value, _ := strings.Cut(rest, "=")
	taint := v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)}
	return taint, nil
}

// checkTaint returns an error for a taint that the API server would reject.
func checkTaint(t *v1.Taint) error {
	switch t.Effect {
	case v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute:
	default:
		return fmt.Errorf("%q isn't an effect of a taint; want %s, %s or %s", t.Effect,
			v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute)
	}
	if wrong := validation.IsQualifiedName(t.Key); len(wrong) > 0 {
		return fmt.Errorf("%q can't be a taint's key: %s", t.Key, strings.Join(wrong, "; "))
	}
	if wrong := validation.IsValidLabelValue(t.Value); len(wrong) > 0 {
		return fmt.Errorf("%q can't be a taint's value: %s", t.Value, strings.Join(wrong, "; "))
	}
	if t.TimeAdded != nil {
		return errors.New("a taint has timeAdded, which only the cluster may set")
	}
	return nil
}
