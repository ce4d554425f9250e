package doctor

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// order compares the instances of two descriptors.
type order func(a, b instance) (int, error)

// gone reports whether the descriptor has been closed, or its process has ended.
func (o order) gone(i instance) bool {
	_, err := o(i, i)
	return errors.Is(err, unix.EBADF) || errors.Is(err, unix.ESRCH)
}

// attempts is how often descriptors are ordered that other processes open and close meanwhile.
const attempts = 3

// distinct returns one descriptor of each instance, because the kernel counts a shared instance once. Descriptors that
// have been closed meanwhile are left out. exact is false if two of the others couldn't be compared; an instance may
// then be there more than once. It fails if ctx ends.
func distinct(ctx context.Context, all []instance, compare order) (one []instance, exact bool, err error) {
	for range attempts {
		var unsure []instance
		if one, unsure, err = sorted(ctx, all, compare); err != nil {
			return nil, false, err
		}
		if len(unsure) > 0 {
			return append(one, unsure...), false, nil
		}
		// A descriptor whose number was used again for another instance may have led the search astray.
		if one = slices.DeleteFunc(one, compare.gone); ascending(one, compare) {
			return one, true, nil
		}
	}
	return one, false, nil
}

// sorted returns one descriptor of each instance, in order, and those that can't be compared.
func sorted(ctx context.Context, all []instance, compare order) (one, unsure []instance, err error) {
	for _, i := range all {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		// If it can't be compared with itself, the search would depend on the order in which it meets the others.
		_, err := compare(i, i)
		for err == nil {
			var failed instance
			at, found := slices.BinarySearchFunc(one, i, func(a, b instance) int {
				result, e := compare(a, b)
				if e != nil {
					failed, err = a, e
				}
				return result
			})
			switch {
			case err == nil && !found:
				one = slices.Insert(one, at, i)
			case err != nil && compare.gone(failed):
				one = slices.DeleteFunc(one, func(a instance) bool { return a == failed })
				err = nil
				continue
			}
			break
		}
		if err != nil && !compare.gone(i) {
			unsure = append(unsure, i)
		}
	}
	return one, unsure, nil
}

// ascending reports whether each descriptor's instance comes after that of the one before, so that all are distinct.
func ascending(one []instance, compare order) bool {
	for at := 1; at < len(one); at++ {
		if result, err := compare(one[at-1], one[at]); err != nil || result >= 0 {
			return false
		}
	}
	return true
}
