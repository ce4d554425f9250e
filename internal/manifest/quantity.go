package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstream/podstream/internal/manifest/validate"
)

// hugeQuantity returns the path of the first quantity that must not be parsed, or "": apimachinery works for hours,
// or forever, at "1e-999999999".
func hugeQuantity(tree map[string]any) string {
	return findQuantity(tree["spec"], "spec", validate.IsHugeQuantity)
}

// badQuantity returns the path of the first invalid quantity, or "": the decoder's error doesn't have it.
func badQuantity(tree map[string]any) string {
	return findQuantity(tree["spec"], "spec", func(text string) bool {
		_, err := resource.ParseQuantity(text)
		return err != nil
	})
}

// findQuantity returns the path of the first quantity of a pod that matches.
func findQuantity(value any, path string, match func(string) bool) string {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if found := findQuantityAt(key, value[key], path+"."+key, match); found != "" {
				return found
			}
		}
	case []any:
		for i, v := range value {
			if found := findQuantity(v, path+"["+strconv.Itoa(i)+"]", match); found != "" {
				return found
			}
		}
	}
	return ""
}

// findQuantityAt finds quantities by the keys of v1.PodSpec; TestQuantityKeys compares them with the type.
func findQuantityAt(key string, value any, path string, match func(string) bool) string {
	switch key {
	case "limits", "requests", "overhead":
		list, _ := value.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if matchQuantity(list[name], match) {
				return path + "[" + name + "]"
			}
		}
	case "sizeLimit", "divisor":
		if matchQuantity(value, match) {
			return path
		}
	default:
		return findQuantity(value, path, match)
	}
	return ""
}

func matchQuantity(value any, match func(string) bool) bool {
	switch value.(type) {
	case string, int64, float64:
		return match(fmt.Sprint(value))
	default:
		return false
	}
}
