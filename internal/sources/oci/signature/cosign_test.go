package signature

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
)

// file reads a file that cosign made; see testdata/cosign/make.sh.
func file(t testing.TB, of string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "cosign", of))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// keysOf returns the keys of a PEM text.
func keysOf(t testing.TB, text []byte) *Keys {
	t.Helper()
	keys, err := ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// signed is the artifact that cosign signed, in the repository where it did.
func signed(t testing.TB) Artifact {
	manifest := file(t, "manifest.json")
	return Artifact{Digest: digestOf(manifest), Manifest: manifest, Repository: repository(t, "127.0.0.1:5055/pods"), Tag: "v1"}
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func repository(t testing.TB, text string) name.Repository {
	t.Helper()
	r, err := name.NewRepository(text, name.StrictValidation)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// evidence returns what cosign made in one form.
func evidence(t testing.TB, key, form string) Evidence {
	t.Helper()
	data := file(t, key+"-"+form+".json")
	if form != "simple" {
		return Evidence{Bundle: data}
	}
	var e Evidence
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

var keyNames = []string{"p256", "p384", "ed25519", "rsa"}

// TestCosign: what cosign 3.1.3 signs with each kind of key, in each format, verifies for its artifact and repository
// only. Forms that name no repository verify only for any.
func TestCosign(t *testing.T) {
	own := signed(t)
	other, moved, tagged := own, own, own
	other.Digest = strings.Replace(own.Digest, own.Digest[7:9], "00", 1)
	moved.Repository, tagged.Tag = repository(t, "127.0.0.1:5055/others"), ""
	for _, key := range keyNames {
		keys := keysOf(t, file(t, key+".pub"))
		strangers := keysOf(t, file(t, map[string]string{"p256": "rsa", "p384": "p256", "ed25519": "p384", "rsa": "ed25519"}[key]+".pub"))
		all := keysOf(t, append(file(t, "p256.pub"), append(file(t, "p384.pub"), append(file(t, "ed25519.pub"), file(t, "rsa.pub")...)...)...))
		for form, named := range map[string]bool{"simple": true, "named": true, "unnamed": false, "message": false} {
			e := evidence(t, key, form)
			check := func(what string, k *Keys, a Artifact, anyRepository bool, want error) {
				t.Helper()
				a.AnyRepository = anyRepository
				if err := k.Verify(e, a); !errors.Is(err, want) {
					t.Errorf("%s %s: %s, any repository: %v: %v; want %v", key, form, what, anyRepository, err, want)
				}
			}
			var unnamed, elsewhere error
			if !named {
				unnamed, elsewhere = errUnnamed, errUnnamed
			} else {
				elsewhere = errRepository
			}
			check("its artifact", keys, own, false, unnamed)
			check("its artifact", keys, own, true, nil)
			check("its artifact by digest", keys, tagged, false, unnamed)
			check("one of several keys", all, own, true, nil)
			check("another repository", keys, moved, false, elsewhere)
			check("another repository", keys, moved, true, nil)
			check("another artifact", keys, other, true, errOther)
			want := error(errOtherKey)
			check("another key", strangers, own, true, want)
		}
	}
}

// TestEachByteCounts: with any byte of a payload or of its signature changed, nothing verifies.
func TestEachByteCounts(t *testing.T) {
	a := signed(t)
	for _, key := range keyNames {
		keys, e := keysOf(t, file(t, key+".pub")), evidence(t, key, "simple")
		for i := range e.Payload {
			changed := e
			changed.Payload = []byte(string(e.Payload))
			changed.Payload[i] ^= 1
			if err := keys.Verify(changed, a); !errors.Is(err, errOtherKey) {
				t.Errorf("%s: with byte %d of the payload changed: %v", key, i, err)
			}
		}
		for i := range len(e.Signature) - 4 {
			c := byte('A')
			if e.Signature[i] == c {
				c = 'B'
			}
			changed := e
			changed.Signature = e.Signature[:i] + string(c) + e.Signature[i+1:]
			if err := keys.Verify(changed, a); !errors.Is(err, errOtherKey) {
				t.Errorf("%s: with byte %d of the signature changed: %v", key, i, err)
			}
		}
	}
}
