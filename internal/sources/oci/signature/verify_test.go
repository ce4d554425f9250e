package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// signer signs as the holder of the key would.
type signer struct {
	t   testing.TB
	key *ecdsa.PrivateKey
}

func newSigner(t testing.TB) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{t, key}
}

func (s *signer) keys() *Keys { return keysOf(s.t, pemOf(s.t, &s.key.PublicKey)) }

func pemOf(t testing.TB, key crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func (s *signer) sign(message []byte) []byte {
	s.t.Helper()
	sum := sha256.Sum256(message)
	signature, err := ecdsa.SignASN1(rand.Reader, s.key, sum[:])
	if err != nil {
		s.t.Fatal(err)
	}
	return signature
}

func (s *signer) simple(payload string) Evidence {
	return Evidence{Payload: []byte(payload), Signature: base64.StdEncoding.EncodeToString(s.sign([]byte(payload)))}
}

func (s *signer) bundle(payloadType, payload string) Evidence {
	s.t.Helper()
	return Evidence{Bundle: bundleOf(s.t, map[string]any{"dsseEnvelope": map[string]any{
		"payload": []byte(payload), "payloadType": payloadType,
		"signatures": []any{map[string]any{"sig": []byte("another key's")}, map[string]any{"sig": s.sign(authenticated(payloadType, []byte(payload)))}},
	}})}
}

func bundleOf(t testing.TB, content map[string]any) []byte {
	t.Helper()
	content["mediaType"] = BundleType
	data, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

const digestA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

var digestB = strings.Replace(digestA, ":a", ":b", 1)

func simplePayload(kind, digest, reference string) string {
	return fmt.Sprintf(`{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":%q},"optional":{"a":1}}`,
		reference, digest, kind)
}

// TestSimpleSigning: the payload has to be cosign's, about the artifact, and for the repository.
func TestSimpleSigning(t *testing.T) {
	s := newSigner(t)
	a := Artifact{Digest: digestA, Repository: repository(t, "registry.example/team/pods"), Tag: "prod"}
	const own = "registry.example/team/pods"
	for _, tc := range []struct {
		name, payload string
		want          error
	}{
		{"its own", simplePayload(simpleType, digestA, own), nil},
		{"with the tag", simplePayload(simpleType, digestA, own+":prod"), nil},
		{"with another tag", simplePayload(simpleType, digestA, own+":test"), errRepository},
		{"with the digest", simplePayload(simpleType, digestA, own+"@"+digestA), nil},
		{"with another digest", simplePayload(simpleType, digestA, own+"@"+digestB), errRepository},
		{"another repository", simplePayload(simpleType, digestA, "registry.example/team/other"), errRepository},
		{"a repository above", simplePayload(simpleType, digestA, "registry.example/team"), errRepository},
		{"a repository below", simplePayload(simpleType, digestA, own+"/x"), errRepository},
		{"another registry", simplePayload(simpleType, digestA, "evil.example/team/pods"), errRepository},
		{"another port", simplePayload(simpleType, digestA, "registry.example:5000/team/pods"), errRepository},
		{"without a registry", simplePayload(simpleType, digestA, "team/pods"), errRepository},
		{"no repository", simplePayload(simpleType, digestA, ""), errUnnamed},
		{"nonsense", simplePayload(simpleType, digestA, "a b\n"), errRepository},
		{"another digest", simplePayload(simpleType, digestB, own), errOther},
		{"no digest", simplePayload(simpleType, "", own), errOther},
		{"another type", simplePayload("atomic container signature", digestA, own), errPurpose},
		{"no type", `{"critical":{}}`, errPurpose},
		{"no JSON", "hello", errBroken},
		{"too large", simplePayload(simpleType, digestA, own) + strings.Repeat(" ", MaxPayload), errBroken},
	} {
		if err := s.keys().Verify(s.simple(tc.payload), a); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v; want %v", tc.name, err, tc.want)
		}
	}
	e := s.simple(simplePayload(simpleType, digestA, own))
	if err := newSigner(t).keys().Verify(e, a); !errors.Is(err, errOtherKey) {
		t.Errorf("another key: %v", err)
	}
	e.Signature = "no base64"
	if err := s.keys().Verify(e, a); !errors.Is(err, errBroken) {
		t.Errorf("a signature that can't be decoded: %v", err)
	}
	e.Signature = ""
	if err := s.keys().Verify(e, a); !errors.Is(err, errOtherKey) {
		t.Errorf("no signature: %v", err)
	}
}

func statementOf(kind, predicate string, subjects ...string) string {
	return fmt.Sprintf(`{"_type":%q,"predicateType":%q,"subject":[%s],"predicate":{}}`, kind, predicate, strings.Join(subjects, ","))
}

func subjectOf(digest, name string, annotations string) string {
	return fmt.Sprintf(`{"digest":{"sha256":%q},"name":%q,"annotations":%s}`, strings.TrimPrefix(digest, "sha256:"), name, annotations)
}

// TestStatement: the statement has to be cosign's about a signature, of the artifact, and for the repository. Envelopes
// are verified by the encoding that DSSE defines.
func TestStatement(t *testing.T) {
	s := newSigner(t)
	a := Artifact{Digest: digestA, Repository: repository(t, "registry.example/pods")}
	const v1, own, none = "https://in-toto.io/Statement/v1", "registry.example/pods", "null"
	if got := string(authenticated("http://example.com/HelloWorld", []byte("hello world"))); got != "DSSEv1 29 http://example.com/HelloWorld 11 hello world" {
		t.Errorf("the encoding is %q", got)
	}
	for _, tc := range []struct {
		name, statement string
		want            error
	}{
		{"named by an annotation", statementOf(v1, signPredicate, subjectOf(digestA, "", `{"docker-reference":"registry.example/pods"}`)), nil},
		{"named by its name", statementOf(v1, signPredicate, subjectOf(digestA, own, none)), nil},
		{"an older statement", statementOf("https://in-toto.io/Statement/v0.1", signPredicate, subjectOf(digestA, own, none)), nil},
		{"the annotation counts", statementOf(v1, signPredicate, subjectOf(digestA, own, `{"docker-reference":"registry.example/other"}`)), errRepository},
		{"another name", statementOf(v1, signPredicate, subjectOf(digestA, "registry.example/other", none)), errRepository},
		{"no name", statementOf(v1, signPredicate, subjectOf(digestA, "", none)), errUnnamed},
		{"an annotation that isn't a text", statementOf(v1, signPredicate, subjectOf(digestA, "", `{"docker-reference":7}`)), errUnnamed},
		{"one of two subjects", statementOf(v1, signPredicate, subjectOf(digestB, own, none), subjectOf(digestA, own, none)), nil},
		{"the name of another subject", statementOf(v1, signPredicate, subjectOf(digestB, own, none), subjectOf(digestA, "x.example/y", none)), errRepository},
		{"another artifact", statementOf(v1, signPredicate, subjectOf(digestB, own, none)), errOther},
		{"no subject", statementOf(v1, signPredicate), errOther},
		{"too many subjects", statementOf(v1, signPredicate, strings.Repeat(subjectOf(digestB, "", none)+",", maxSubjects)+subjectOf(digestA, own, none)), errOther},
		{"an SBOM", statementOf(v1, "https://spdx.dev/Document", subjectOf(digestA, own, none)), errPurpose},
		{"no statement", statementOf("x", signPredicate, subjectOf(digestA, own, none)), errPurpose},
		{"no JSON", "hello", errBroken},
	} {
		if err := s.keys().Verify(s.bundle(statementType, tc.statement), a); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v; want %v", tc.name, err, tc.want)
		}
	}
	good := statementOf(v1, signPredicate, subjectOf(digestA, own, none))
	if err := s.keys().Verify(s.bundle("text/plain", good), a); !errors.Is(err, errPurpose) {
		t.Errorf("another type of payload: %v", err)
	}
	if err := newSigner(t).keys().Verify(s.bundle(statementType, good), a); !errors.Is(err, errOtherKey) {
		t.Errorf("another key: %v", err)
	}
}

// TestBundles: what isn't one bundle with one content is refused.
func TestBundles(t *testing.T) {
	s := newSigner(t)
	manifest := []byte("{}")
	a := Artifact{Digest: digestOf(manifest), Manifest: manifest, AnyRepository: true}
	message := map[string]any{"signature": s.sign(manifest)}
	sum := sha256.Sum256(manifest)
	of := func(content map[string]any) []byte { return bundleOf(t, content) }
	for name, tc := range map[string]struct {
		bundle []byte
		want   error
	}{
		"a message": {of(map[string]any{"messageSignature": message}), nil},
		"with its digest": {of(map[string]any{"messageSignature": map[string]any{
			"signature": message["signature"], "messageDigest": map[string]any{"algorithm": "SHA2_256", "digest": sum[:]},
		}}), nil},
		"with another digest": {of(map[string]any{"messageSignature": map[string]any{
			"signature": message["signature"], "messageDigest": map[string]any{"algorithm": "SHA2_256", "digest": []byte("x")},
		}}), errOther},
		"both contents":   {of(map[string]any{"messageSignature": message, "dsseEnvelope": map[string]any{}}), errBroken},
		"no content":      {of(map[string]any{}), errBroken},
		"no signatures":   {of(map[string]any{"dsseEnvelope": map[string]any{}}), errBroken},
		"100 signatures":  {of(map[string]any{"dsseEnvelope": map[string]any{"signatures": make([]struct{}, 100)}}), errBroken},
		"no base64":       {[]byte(`{"mediaType":"` + BundleType + `","messageSignature":{"signature":"?"}}`), errBroken},
		"another version": {[]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v9+json"}`), errBroken},
		"its former name": {[]byte(strings.Replace(string(of(map[string]any{"messageSignature": message})), BundleType, formerBundleType, 1)), nil},
		"no JSON":         {[]byte("{"), errBroken},
		"too large":       {append(of(map[string]any{"messageSignature": message}), make([]byte, MaxBundle)...), errBroken},
	} {
		if err := s.keys().Verify(Evidence{Bundle: tc.bundle}, a); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v; want %v", name, err, tc.want)
		}
	}
	// The digest of another manifest doesn't make its signature one of this.
	a.Digest = digestA
	if err := s.keys().Verify(Evidence{Bundle: of(map[string]any{"messageSignature": message})}, a); !errors.Is(err, errOther) {
		t.Errorf("another digest: %v", err)
	}
	if err := s.keys().Verify(Evidence{}, a); err == nil {
		t.Error("nothing verifies")
	}
}

// TestKeys: the kinds of keys that are read, and their limits.
func TestKeys(t *testing.T) {
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GODEBUG", "rsa1024min=0")
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p256 := file(t, "p256.pub")
	key, _ := pem.Decode(file(t, "rsa.pub"))
	parsed, err := x509.ParsePKIXPublicKey(key.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	pkcs1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(parsed.(*rsa.PublicKey))})
	block := func(kind string) string { return "-----BEGIN " + kind + "-----\nAAAA\n-----END " + kind + "-----\n" }
	for name, tc := range map[string]struct {
		text string
		want error
	}{
		"P-256":               {string(p256), nil},
		"RSA of PKCS 1":       {string(pkcs1), nil},
		"two":                 {string(p256) + string(file(t, "rsa.pub")), nil},
		"beside other blocks": {"a comment\n" + block("CERTIFICATE") + string(p256), nil},
		"P-521":               {string(pemOf(t, &p521.PublicKey)), errKeyType},
		"P-224":               {string(pemOf(t, &p224.PublicKey)), errKeyType},
		"RSA 1024":            {string(pemOf(t, &short.PublicKey)), errKeySize},
		"one bad of two":      {string(p256) + string(pemOf(t, &short.PublicKey)), errKeySize},
		"nothing":             {"", errNoKey},
		"no PEM":              {"hello", errNoKey},
		"a certificate":       {block("CERTIFICATE"), errNoKey},
		"a private key":       {block("ENCRYPTED SIGSTORE PRIVATE KEY") + string(p256), errPrivate},
		"a broken key":        {block("PUBLIC KEY"), errKeyBlock},
		"nine":                {strings.Repeat(string(p256), 9), errKeys},
	} {
		if _, err := ParseKeys([]byte(tc.text)); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v; want %v", name, err, tc.want)
		}
	}
}
