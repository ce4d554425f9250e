package validate

import "regexp"

// maxQuantity is the longest text that is accepted as a quantity.
const maxQuantity = 64

// hugeExponent matches an exponent of three digits or more. Resource quantities end at 10^18 and 10^-9.
var hugeExponent = regexp.MustCompile(`[eE][+-]?[0-9]{3}`)

// IsHugeQuantity reports whether the text must not be parsed as a quantity: apimachinery works for hours, or forever,
// at "1e-999999999".
func IsHugeQuantity(text string) bool {
	return len(text) > maxQuantity || hugeExponent.MatchString(text)
}
