package nodecert

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
)

const (
	// signingWatch is how long one watch of a request lasts, and watchGrace how much longer a server may take to end it.
	signingWatch, watchGrace = 5 * time.Minute, 30 * time.Second
	// signingPause is the pause after a watch.
	signingPause = time.Second
)

// usagesFor returns the kubelet's usages of a certificate: this one, signatures, and an RSA key's encipherment of keys.
func usagesFor(usage certificatesv1.KeyUsage) func(key any) []certificatesv1.KeyUsage {
	return func(key any) []certificatesv1.KeyUsage {
		if _, is := key.(*rsa.PrivateKey); is {
			return []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, usage}
		}
		return []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage}
	}
}

// submit creates the certificate signing request, or finds the existing one for the same key. It returns its UID.
func submit(ctx context.Context, client *apiclient.Client, r *certificatesv1.CertificateSigningRequest, key crypto.Signer) (types.UID, error) {
	requests := client.SigningRequests()
	made, err := requests.Create(ctx, r, metav1.CreateOptions{})
	switch {
	case err == nil:
		return made.UID, nil
	case !apierrors.IsAlreadyExists(err):
		return "", fmt.Errorf("cannot create certificate signing request: %w", err)
	}
	found, err := requests.Get(ctx, r.Name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("cannot retrieve certificate signing request: %w", err)
	}
	if err := reusable(found, r, key); err != nil {
		return "", fmt.Errorf("the existing certificate signing request can't be used: %w", err)
	}
	return found.UID, nil
}

// reusable returns why a request that was found isn't the one that was to be made. Nil: it is.
func reusable(found, wanted *certificatesv1.CertificateSigningRequest, key crypto.Signer) error {
	theirs, err := parseRequest(found)
	if err != nil {
		return err
	}
	ours, err := parseRequest(wanted)
	if err != nil {
		return err
	}
	switch {
	case !bytes.Equal(theirs.RawSubject, ours.RawSubject):
		return fmt.Errorf("its subject is %s; want %s", theirs.Subject, ours.Subject)
	case found.Spec.SignerName != wanted.Spec.SignerName:
		return fmt.Errorf("its signer is %s; want %s", found.Spec.SignerName, wanted.Spec.SignerName)
	case !hasKey(theirs, key):
		return errors.New("it is for another key")
	}
	if err := theirs.CheckSignature(); err != nil {
		return fmt.Errorf("its signature: %w", err)
	}
	if len(found.Status.Certificate) == 0 {
		return nil
	}
	signed, err := certutil.ParseCertsPEM(found.Status.Certificate)
	if err != nil {
		return fmt.Errorf("its certificate: %w", err)
	}
	for _, c := range signed {
		if time.Now().After(c.NotAfter) {
			return fmt.Errorf("its certificate expired at %v", c.NotAfter)
		}
	}
	return nil
}

func parseRequest(r *certificatesv1.CertificateSigningRequest) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil || block.Type != certutil.CertificateRequestBlockType {
		return nil, errors.New("it has no PEM block of a certificate request")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// hasKey reports whether a request is for the key.
func hasKey(r *x509.CertificateRequest, key crypto.Signer) bool {
	ours, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && ours.Equal(r.PublicKey)
}

// awaitCertificate returns the certificate of the request once it is signed. Until ctx ends, failures to read the request are only a
// pause.
func awaitCertificate(ctx context.Context, client *apiclient.Client, name string, uid types.UID) ([]byte, error) {
	for ctx.Err() == nil {
		cert, err := awaitOnce(ctx, client, name, uid)
		if unread := (*unreadError)(nil); !errors.As(err, &unread) {
			return cert, err
		}
		select {
		case <-time.After(wait.Jitter(signingPause, 1)):
		case <-ctx.Done():
		}
	}
	return nil, ctx.Err()
}

// unreadError means that the state of a request isn't known.
type unreadError struct{ error }

// awaitOnce lists and watches the request until the watch ends.
func awaitOnce(ctx context.Context, client *apiclient.Client, name string, uid types.UID) ([]byte, error) {
	requests, only := client.SigningRequests(), fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	listing, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	list, err := requests.List(listing, metav1.ListOptions{FieldSelector: only})
	if err != nil {
		return nil, &unreadError{err}
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("certificate signing request %s was deleted", name)
	}
	if cert, err := signedOf(&list.Items[0], uid); cert != nil || err != nil {
		return cert, err
	}
	watching, stop := context.WithTimeout(ctx, signingWatch+watchGrace)
	defer stop()
	w, err := requests.Watch(watching, metav1.ListOptions{
		FieldSelector: only, ResourceVersion: list.ResourceVersion, TimeoutSeconds: ptr.To(int64(signingWatch.Seconds())),
	})
	if err != nil {
		return nil, &unreadError{err}
	}
	defer w.Stop()
	for {
		var event watch.Event
		select {
		case event = <-w.ResultChan():
		case <-watching.Done():
		}
		request, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
		switch {
		case !ok:
			return nil, &unreadError{errors.New("the watch has ended")}
		case event.Type == watch.Deleted:
			return nil, fmt.Errorf("certificate signing request %s was deleted", name)
		}
		if cert, err := signedOf(request, uid); cert != nil || err != nil {
			return cert, err
		}
	}
}

// signedOf returns the request's certificate, nil if there isn't one yet.
func signedOf(r *certificatesv1.CertificateSigningRequest, uid types.UID) ([]byte, error) {
	if r.UID != uid {
		return nil, fmt.Errorf("certificate signing request %s was replaced by another one", r.Name)
	}
	if err := refusal(r); err != nil {
		return nil, err
	}
	for _, c := range r.Status.Conditions {
		if c.Type == certificatesv1.CertificateApproved && len(r.Status.Certificate) > 0 {
			return r.Status.Certificate, nil
		}
	}
	return nil, nil
}
