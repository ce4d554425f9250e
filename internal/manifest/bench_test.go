package manifest

import "testing"

// BenchmarkSpecDigest: a digest is taken of every pod that any source reads.
func BenchmarkSpecDigest(b *testing.B) {
	pod := examplePod()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := SpecDigest(pod); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	b.SetBytes(int64(len(smallPod)))
	b.ReportAllocs()
	for b.Loop() {
		if o := Parse([]byte(smallPod), fileOptions); o.Held {
			b.Fatal(summary(o))
		}
	}
}
