package signature

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
)

const (
	// BundleType is the media type of a bundle, and its artifact type at a registry.
	BundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"
	// formerBundleType is what it was called at first.
	formerBundleType = "application/vnd.dev.sigstore.bundle+json;version=0.3"
	// statementType is the type of the content of an envelope.
	statementType = "application/vnd.in-toto+json"
	// signPredicate is the predicate of cosign's signatures. Others, such as an SBOM, don't say that an artifact may be
	// used.
	signPredicate = "https://sigstore.dev/cosign/sign/v1"
	// referenceAnnotation is the annotation of a subject that names its repository, as the field of simple signing.
	referenceAnnotation = "docker-reference"
	// maxSignatures is the maximum number of signatures of an envelope.
	maxSignatures = 16
)

// statementTypes are the versions of in-toto's statements.
var statementTypes = []string{"https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1"}

// bundle is a bundle of Sigstore, as far as it is read. Bytes are in base64, as in each JSON of a protobuf.
type bundle struct {
	MediaType        string            `json:"mediaType"`
	DSSEEnvelope     *envelope         `json:"dsseEnvelope"`
	MessageSignature *messageSignature `json:"messageSignature"`
}

type envelope struct {
	Payload     []byte `json:"payload"`
	PayloadType string `json:"payloadType"`
	Signatures  []struct {
		Sig []byte `json:"sig"`
	} `json:"signatures"`
}

type messageSignature struct {
	MessageDigest *struct {
		Algorithm string `json:"algorithm"`
		Digest    []byte `json:"digest"`
	} `json:"messageDigest"`
	Signature []byte `json:"signature"`
}

// statement is an in-toto statement, as far as it is read.
type statement struct {
	Type          string    `json:"_type"`
	PredicateType string    `json:"predicateType"`
	Subject       []subject `json:"subject"`
}

type subject struct {
	Name        string            `json:"name"`
	Digest      map[string]string `json:"digest"`
	Annotations map[string]any    `json:"annotations"`
}

func (k *Keys) verifyBundle(data []byte, a Artifact) error {
	var b bundle
	if len(data) > MaxBundle || json.Unmarshal(data, &b) != nil {
		return errBroken
	}
	if b.MediaType != BundleType && b.MediaType != formerBundleType {
		return errBroken
	}
	switch {
	case b.DSSEEnvelope != nil && b.MessageSignature == nil:
		return k.verifyEnvelope(b.DSSEEnvelope, a)
	case b.MessageSignature != nil && b.DSSEEnvelope == nil:
		return k.verifyMessage(b.MessageSignature, a)
	}
	return errBroken
}

// verifyEnvelope verifies a DSSE envelope with a statement that the artifact is signed.
func (k *Keys) verifyEnvelope(e *envelope, a Artifact) error {
	if len(e.Signatures) == 0 || len(e.Signatures) > maxSignatures {
		return errBroken
	}
	message := authenticated(e.PayloadType, e.Payload)
	isSigned := false
	for _, s := range e.Signatures {
		isSigned = isSigned || len(s.Sig) <= MaxSignature && k.signed(message, s.Sig)
	}
	if !isSigned {
		return errOtherKey
	}
	var s statement
	if e.PayloadType != statementType {
		return errPurpose
	}
	if json.Unmarshal(e.Payload, &s) != nil {
		return errBroken
	}
	if !slices.Contains(statementTypes, s.Type) || s.PredicateType != signPredicate {
		return errPurpose
	}
	of, ok := a.subject(s.Subject)
	if !ok {
		return errOther
	}
	reference, _ := of.Annotations[referenceAnnotation].(string)
	if reference == "" {
		reference = of.Name
	}
	return a.isNamed(reference)
}

// verifyMessage verifies a signature of the manifest itself.
func (k *Keys) verifyMessage(m *messageSignature, a Artifact) error {
	if len(m.Signature) > MaxSignature {
		return errBroken
	}
	sum := sha256.Sum256(a.Manifest)
	if "sha256:"+hex.EncodeToString(sum[:]) != a.Digest {
		return errOther
	}
	if d := m.MessageDigest; d != nil && d.Algorithm == "SHA2_256" && !bytes.Equal(d.Digest, sum[:]) {
		return errOther
	}
	if !k.signed(a.Manifest, m.Signature) {
		return errOtherKey
	}
	return a.isNamed("")
}

// authenticated is what a signature of an envelope signs: DSSE's "pre-authentication encoding".
func authenticated(payloadType string, payload []byte) []byte {
	var out bytes.Buffer
	out.WriteString("DSSEv1 " + strconv.Itoa(len(payloadType)) + " " + payloadType + " " + strconv.Itoa(len(payload)) + " ")
	out.Write(payload)
	return out.Bytes()
}
