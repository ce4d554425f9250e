package criconfig

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxPageSize is the length of the longest text that is parsed as a page size.
const maxPageSize = 20

// PageSize returns the size in bytes of the huge pages in a resource hugepages-SIZE or a medium HugePages-SIZE: 2Mi or
// 1Gi.
func PageSize(text string) (int64, error) {
	// A large exponent takes hours to parse.
	if len(text) > maxPageSize || strings.ContainsAny(text, "eE") {
		return 0, fmt.Errorf("page size %.64q isn't of the form 2Mi", text)
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("page size %q: %w", text, err)
	}
	if q.Value() <= 0 {
		return 0, fmt.Errorf("page size %q has to be more than nothing", text)
	}
	return q.Value(), nil
}
