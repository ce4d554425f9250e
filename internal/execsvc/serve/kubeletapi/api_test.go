package kubeletapi

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// authority is a CA that signs everything.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	c := a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a.cert, a.key = c.Leaf, c.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

func (a *authority) sign(t *testing.T, c *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	if c.NotAfter.IsZero() {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent, by := c, key
	if a.cert != nil {
		parent, by = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (a *authority) client(t *testing.T, name string) *tls.Certificate {
	c := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return &c
}

// api has the tokens "reader", whose user may get pods, metrics and stats, and "nobody", whose user may do
// nothing. The owner of a certificate may do everything.
type api struct {
	mu sync.Mutex
	// decided are the access reviews, as "user verb subresource".
	decided []string
}

type tokenAPI struct{ *api }

func (tokenAPI) Create(_ context.Context, r *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	known := r.Spec.Token == "reader" || r.Spec.Token == "nobody"
	r.Status = authenticationv1.TokenReviewStatus{Authenticated: known, User: authenticationv1.UserInfo{Username: r.Spec.Token}}
	return r, nil
}

type accessAPI struct{ *api }

func (a accessAPI) Create(_ context.Context, r *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	of := r.Spec.ResourceAttributes
	a.mu.Lock()
	a.decided = append(a.decided, r.Spec.User+" "+of.Verb+" "+of.Subresource)
	a.mu.Unlock()
	switch r.Spec.User {
	case "nobody":
	case "reader":
		r.Status.Allowed = of.Verb == "get" && (of.Subresource == "pods" || of.Subresource == "metrics" || of.Subresource == "stats")
	default:
		r.Status.Allowed = true
	}
	return r, nil
}
