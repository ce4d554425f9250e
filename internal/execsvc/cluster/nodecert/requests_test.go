package nodecert

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/podstream/podstream/internal/certtest"
)

func (a *api) create(w http.ResponseWriter, r *http.Request) {
	c := &certificatesv1.CertificateSigningRequest{}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, c)
	}
	if err != nil {
		a.t.Errorf("a request that can't be read: %v", err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.csrs[c.Name] != nil {
		answer(w, http.StatusConflict, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonAlreadyExists, Code: http.StatusConflict})
		return
	}
	c.TypeMeta = metav1.TypeMeta{Kind: "CertificateSigningRequest", APIVersion: "certificates.k8s.io/v1"}
	c.UID, c.Spec.Username = types.UID(c.Name), r.Context().Value(userKey{}).(string)
	a.created++
	made := a.decide(c, a.decision)
	if a.loses {
		panic(http.ErrAbortHandler)
	}
	answer(w, http.StatusCreated, made)
}

// decide is called with mu held. It doesn't change the request in place, because other goroutines may be
// reading it.
func (a *api) decide(c *certificatesv1.CertificateSigningRequest, d decision) *certificatesv1.CertificateSigningRequest {
	c = c.DeepCopy()
	switch d {
	case approve:
		c.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: v1.ConditionTrue}}
		c.Status.Certificate = a.certificateFor(c)
	case deny:
		c.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
			Type: certificatesv1.CertificateDenied, Status: v1.ConditionTrue, Reason: "Policy", Message: "not in here",
		}}
	case leave:
	}
	a.version++
	c.ResourceVersion = strconv.Itoa(a.version)
	a.csrs[c.Name] = c
	close(a.changed)
	a.changed = make(chan struct{})
	return c
}

// decideAll decides on the existing requests.
func (a *api) decideAll(d decision) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.csrs {
		if len(c.Status.Conditions) == 0 {
			a.decide(c, d)
		}
	}
}

// requests returns how many certificates were requested.
func (a *api) requests() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.created
}

// awaitRequests waits until that many certificates were requested.
func (a *api) awaitRequests(many int) {
	a.t.Helper()
	await(a.t, fmt.Sprintf("the certificates asked for are %d", many), func() bool { return a.requests() == many })
}

// wantRequests checks how many certificates were requested.
func (a *api) wantRequests(many int) {
	a.t.Helper()
	if made := a.requests(); made != many {
		a.t.Errorf("%d certificates were asked for; want %d", made, many)
	}
}

func (a *api) certificateFor(c *certificatesv1.CertificateSigningRequest) []byte {
	block, _ := pem.Decode(c.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || request.CheckSignature() != nil {
		a.t.Errorf("request %s is no good: %v", c.Name, err)
		return nil
	}
	template := x509.Certificate{
		Subject: request.Subject, NotBefore: time.Now().Add(a.skew), NotAfter: time.Now().Add(a.skew + a.life),
		DNSNames: request.DNSNames, IPAddresses: request.IPAddresses, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	for _, usage := range c.Spec.Usages {
		switch usage {
		case certificatesv1.UsageClientAuth:
			template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
		case certificatesv1.UsageServerAuth:
			template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		default:
		}
	}
	return certtest.PEM(a.ca.Sign(template, request.PublicKey))
}

func (a *api) get(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.csrs[r.PathValue("name")]; c != nil {
		answer(w, http.StatusOK, c)
		return
	}
	answer(w, http.StatusNotFound, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
}

// list lists or watches one request.
func (a *api) list(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	if r.URL.Query().Get("watch") != "" {
		a.watch(w, r, name)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	list := &certificatesv1.CertificateSigningRequestList{TypeMeta: metav1.TypeMeta{Kind: "CertificateSigningRequestList", APIVersion: "certificates.k8s.io/v1"}}
	list.ResourceVersion = strconv.Itoa(a.version)
	if c := a.csrs[name]; c != nil {
		list.Items = append(list.Items, *c)
	}
	answer(w, http.StatusOK, list)
}

func (a *api) watch(w http.ResponseWriter, r *http.Request, name string) {
	if r.URL.Query().Get("sendInitialEvents") != "" {
		answer(w, http.StatusUnprocessableEntity, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	last := r.URL.Query().Get("resourceVersion")
	for {
		a.mu.Lock()
		c, changed := a.csrs[name], a.changed
		a.mu.Unlock()
		if c != nil && c.ResourceVersion != last {
			last = c.ResourceVersion
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": c})
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}
