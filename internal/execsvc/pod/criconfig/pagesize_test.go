package criconfig

import (
	"strings"
	"testing"
)

func TestPageSize(t *testing.T) {
	for text, want := range map[string]int64{"2Mi": 2 << 20, "1Gi": 1 << 30, "2048Ki": 2 << 20, "64k": 64000} {
		if got, err := PageSize(text); got != want || err != nil {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	// apimachinery parses an exponent of nine digits for hours.
	for _, text := range []string{"", "lots", "0", "-2Mi", "1e-999999999", "1E-999999999", strings.Repeat("1", 21)} {
		if got, err := PageSize(text); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}
