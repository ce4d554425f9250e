package podsummary

import "fmt"

// Size returns a number of bytes in decimal units with three digits, as podman and crictl print it: "85.2MB".
func Size(bytes uint64) string {
	if bytes < 1000 {
		return fmt.Sprintf("%dB", bytes)
	}
	n := float64(bytes)
	for _, unit := range []string{"kB", "MB", "GB", "TB", "PB"} {
		// %.3g would print 999.5 and more as 1e+03.
		if n /= 1000; n < 999.5 {
			return fmt.Sprintf("%.3g%s", n, unit)
		}
	}
	return fmt.Sprintf("%.3gEB", n/1000)
}
