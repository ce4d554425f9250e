package manifest

import "testing"

// FuzzParse checks, of any bytes, that Parse doesn't panic, gives the same each time, and keeps what checkOrigin asks
// for. The corpus in testdata/fuzz/FuzzParse is run by every plain "go test"; "make fuzz" looks for more.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte, url, strict bool) {
		opts := fileOptions
		opts.Strict = strict
		if url {
			opts.OriginKind, opts.Origin = URLKind, "https://config.example/pods"
		}
		o := Parse(data, opts)
		checkOrigin(t, o)
		checkDeterministic(t, data, opts, o)
	})
}
