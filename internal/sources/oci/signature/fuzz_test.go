package signature

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzBundle: no bundle causes a panic, and none verifies but by a signature of the key.
func FuzzBundle(f *testing.F) {
	a := signed(f)
	keys := keysOf(f, file(f, "p256.pub"))
	for _, key := range keyNames {
		for _, form := range []string{"named", "unnamed", "message"} {
			f.Add(file(f, key+"-"+form+".json"))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := keys.Verify(Evidence{Bundle: data}, a)
		if err != nil {
			return
		}
		var b bundle
		if json.Unmarshal(data, &b) != nil || b.DSSEEnvelope == nil || !strings.Contains(string(b.DSSEEnvelope.Payload), a.Digest[7:]) {
			t.Fatalf("%q verifies", data)
		}
	})
}

// FuzzSimpleSigning: no payload verifies but the one that is signed.
func FuzzSimpleSigning(f *testing.F) {
	a := signed(f)
	keys := keysOf(f, append(file(f, "p256.pub"), file(f, "ed25519.pub")...))
	for _, key := range keyNames {
		e := evidence(f, key, "simple")
		f.Add(e.Payload, e.Signature)
	}
	want := string(evidence(f, "p256", "simple").Payload)
	f.Fuzz(func(t *testing.T, payload []byte, signature string) {
		if keys.Verify(Evidence{Payload: payload, Signature: signature}, a) == nil && string(payload) != want {
			t.Fatalf("%q verifies", payload)
		}
	})
}
