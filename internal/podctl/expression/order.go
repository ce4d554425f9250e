package expression

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Order returns the indexes of the items in the order of their values at the path. Items without the field come first. No
// item with the field is an error: the path is probably wrong.
func Order(path *Path, items []any) ([]int, error) {
	keys, order, found := make([]any, len(items)), make([]int, len(items)), false
	for i, item := range items {
		values, err := path.Values(item)
		if err != nil {
			return nil, err
		}
		order[i] = i
		if len(values) > 0 {
			keys[i], found = values[0], true
		}
	}
	if !found && len(items) > 0 {
		return nil, fmt.Errorf("nothing is sorted: no item has a field %s", path.Text)
	}
	slices.SortStableFunc(order, func(a, b int) int { return compare(keys[a], keys[b]) })
	return order, nil
}

// compare orders values of a kind by their meaning, and others by their kind: missing, booleans, numbers, texts, others. Texts
// that are quantities, such as 100Mi, are ordered by their size.
func compare(a, b any) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case bool:
		return cmp.Compare(number(a), number(b))
	case int64, float64:
		return cmp.Compare(number(a), number(b))
	case string:
		text, _ := b.(string)
		first, err := resource.ParseQuantity(a)
		if err == nil {
			if second, err := resource.ParseQuantity(text); err == nil {
				return first.Cmp(second)
			}
		}
		return cmp.Compare(a, text)
	}
	return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
}

func rank(v any) int {
	switch v.(type) {
	case nil:
		return 0
	case bool:
		return 1
	case int64, float64:
		return 2
	case string:
		return 3
	}
	return 4
}

func number(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	case bool:
		if v {
			return 1
		}
	}
	return 0
}
