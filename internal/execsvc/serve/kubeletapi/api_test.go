package kubeletapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/certtest"
)

// certificate is a client's certificate.
func certificate(ca *certtest.CA, name string) *tls.Certificate {
	c := ca.Pair(x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
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
