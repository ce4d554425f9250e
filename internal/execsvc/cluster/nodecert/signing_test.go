package nodecert

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certutil "k8s.io/client-go/util/cert"

	"github.com/podstream/podstream/internal/certtest"
)

// TestReusable: another user can make a request of the same name; it is used only if it is what would have been made.
func TestReusable(t *testing.T) {
	newKey := func() crypto.Signer {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	key, ca := newKey(), certtest.NewCA(t, "cluster")
	request := func(key crypto.Signer, name string) *certificatesv1.CertificateSigningRequest {
		text, err := certutil.MakeCSRFromTemplate(key, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}})
		if err != nil {
			t.Fatal(err)
		}
		return &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Request: text, SignerName: "signer"}}
	}
	signed := func(age time.Duration) []byte {
		template := forNode("n1", time.Hour)
		template.NotAfter = time.Now().Add(age)
		text, _ := ca.PairPEM(template)
		return text
	}
	for name, tc := range map[string]struct {
		change func(*certificatesv1.CertificateSigningRequest)
		want   bool
	}{
		"the same":            {func(*certificatesv1.CertificateSigningRequest) {}, true},
		"with a certificate":  {func(r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = signed(time.Hour) }, true},
		"with an expired one": {func(r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = signed(-time.Minute) }, false},
		"with a damaged one":  {func(r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = []byte("x") }, false},
		"of another subject":  {func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = request(key, "other").Spec.Request }, false},
		"for another key": {func(r *certificatesv1.CertificateSigningRequest) {
			r.Spec.Request = request(newKey(), "n1").Spec.Request
		}, false},
		"for another signer":    {func(r *certificatesv1.CertificateSigningRequest) { r.Spec.SignerName = "other" }, false},
		"that isn't PEM":        {func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = []byte("x") }, false},
		"whose signature fails": {func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = damaged(t, r.Spec.Request) }, false},
	} {
		found := request(key, "n1")
		tc.change(found)
		if err := reusable(found, request(key, "n1"), key); (err == nil) != tc.want {
			t.Errorf("a request %s: %v", name, err)
		}
	}
}

// damaged returns the request with another signature.
func damaged(t *testing.T, request []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(request)
	if block == nil {
		t.Fatal("there is no request")
	}
	block.Bytes[len(block.Bytes)-1] ^= 1
	return pem.EncodeToMemory(block)
}

// TestUsages: the usages are the kubelet's.
func TestUsages(t *testing.T) {
	want := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	if got := usagesFor(certificatesv1.UsageClientAuth)(&ecdsa.PrivateKey{}); !slices.Equal(got, want) {
		t.Errorf("with an ECDSA key: %q; want %q", got, want)
	}
	want = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth}
	if got := usagesFor(certificatesv1.UsageServerAuth)(&rsa.PrivateKey{}); !slices.Equal(got, want) {
		t.Errorf("with an RSA key: %q; want %q", got, want)
	}
}
