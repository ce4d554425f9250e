package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/pem"

	"github.com/podstream/podstream/internal/sources/fault"
)

const (
	// maxKeys is the maximum number of keys in a file.
	maxKeys = 8
	// minRSA and maxRSA bound the size of an RSA key, in bits.
	minRSA, maxRSA = 2048, 8192
)

const (
	errNoKey    fault.Error = "there is no public key in PEM (PUBLIC KEY)"
	errKeys     fault.Error = "there are more than 8 keys"
	errPrivate  fault.Error = "there is a private key; only the public one belongs on a node"
	errKeyType  fault.Error = "a key isn't one of ECDSA P-256, ECDSA P-384, Ed25519 or RSA"
	errKeySize  fault.Error = "an RSA key has less than 2048 or more than 8192 bits"
	errKeyBlock fault.Error = "a public key can't be read"
)

// Keys are public keys. A signature by one of them counts.
type Keys struct{ keys []crypto.PublicKey }

// ParseKeys reads the keys of a PEM file. It returns an error if one of them can't be used.
func ParseKeys(data []byte) (*Keys, error) {
	k := &Keys{}
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		var key any
		var err error
		switch block.Type {
		case "PUBLIC KEY":
			key, err = x509.ParsePKIXPublicKey(block.Bytes)
		case "RSA PUBLIC KEY":
			key, err = x509.ParsePKCS1PublicKey(block.Bytes)
		case "PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY", "ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY":
			return nil, errPrivate
		default:
			continue
		}
		if err != nil {
			return nil, errKeyBlock
		}
		if err := checkKey(key); err != nil {
			return nil, err
		}
		if k.keys = append(k.keys, key); len(k.keys) > maxKeys {
			return nil, errKeys
		}
	}
	if len(k.keys) == 0 {
		return nil, errNoKey
	}
	return k, nil
}

func checkKey(key crypto.PublicKey) error {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() {
			return errKeyType
		}
	case ed25519.PublicKey:
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSA || bits > maxRSA {
			return errKeySize
		}
	default:
		return errKeyType
	}
	return nil
}

// signed reports whether one of the keys has made the signature of the message.
func (k *Keys) signed(message, signature []byte) bool {
	for _, key := range k.keys {
		if verify(key, message, signature) {
			return true
		}
	}
	return false
}

// verify reports whether the key has made the signature. Nothing in a signature says how the message was hashed: cosign
// uses SHA-256 for each kind of key, and with P-384 SHA-384 in bundles. A blob is signed by Ed25519ph.
func verify(key crypto.PublicKey, message, signature []byte) bool {
	short := sha256.Sum256(message)
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if ecdsa.VerifyASN1(key, short[:], signature) {
			return true
		}
		long := sha512.Sum384(message)
		return key.Curve == elliptic.P384() && ecdsa.VerifyASN1(key, long[:], signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, short[:], signature) == nil
	case ed25519.PublicKey:
		if ed25519.Verify(key, message, signature) {
			return true
		}
		prehashed := sha512.Sum512(message)
		return ed25519.VerifyWithOptions(key, prehashed[:], signature, &ed25519.Options{Hash: crypto.SHA512}) == nil
	}
	return false
}
