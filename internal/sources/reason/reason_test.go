package reason_test

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/sources/reason"
)

// reset returns the error of a reset connection from this local port.
func reset(port int) error {
	return &net.OpError{
		Op: "read", Net: "tcp", Err: syscall.ECONNRESET,
		Source: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}, Addr: &net.TCPAddr{IP: net.IPv6loopback, Port: 6443},
	}
}

// expired returns the error of a certificate that expired at one time, found at another time.
func expired(at, now int64) error {
	end := time.Unix(at, 0)
	return x509.CertificateInvalidError{
		Cert: &x509.Certificate{NotAfter: end}, Reason: x509.Expired,
		Detail: fmt.Sprintf("current time %s is after %s", time.Unix(now, 0).Format(time.RFC3339), end.Format(time.RFC3339)),
	}
}

func unavailable(err error) error {
	return status.Errorf(codes.Unavailable, "connection error: desc = \"transport: %v\"", err)
}

func TestOneReason(t *testing.T) {
	for name, pair := range map[string][2]error{
		"another port of this side":     {reset(40001), reset(40002)},
		"in a status":                   {unavailable(reset(40001)), unavailable(reset(40002))},
		"a later time of day":           {expired(0, 1000), expired(0, 2000)},
		"in a status too":               {unavailable(expired(0, 1000)), unavailable(expired(0, 2000))},
		"another stream":                {errors.New("stream ID 5; INTERNAL_ERROR"), errors.New("stream ID 1999; INTERNAL_ERROR")},
		"another last stream":           {errors.New("GOAWAY; LastStreamID=5, x"), errors.New("GOAWAY; LastStreamID=77, x")},
		"another name server's address": {errors.New("lookup a on 10.0.0.1:53: no"), errors.New("lookup a on [fd00::1]:53: no")},
		"a longer wait":                 {errors.New("nothing for 1m1s"), errors.New("nothing for 1m3s")},
		"an amount":                     {errors.New("too much: 4 pods of 900 bytes"), errors.New("too much: 5 pods of 1000 bytes")},
	} {
		if pair[0].Error() == pair[1].Error() {
			t.Errorf("%s: the two texts are equal: %v", name, pair[0])
		}
		if a, b := reason.Of(pair[0]), reason.Of(pair[1]); a != b {
			t.Errorf("%s: the reasons are\n%s\n%s\nwant one", name, a, b)
		}
	}
}

func TestTwoReasons(t *testing.T) {
	for name, pair := range map[string][2]error{
		"none and one":              {nil, errors.New("EOF")},
		"another code":              {status.Error(codes.Unavailable, "no"), status.Error(codes.PermissionDenied, "no")},
		"another fault":             {unavailable(reset(1)), unavailable(errors.New("EOF"))},
		"another certificate":       {expired(0, 1000), expired(500, 1000)},
		"another file":              {errors.New("open /etc/1.crt: no such file"), errors.New("open /etc/2.crt: no such file")},
		"another host":              {errors.New("lookup a1: no such host"), errors.New("lookup a2: no such host")},
		"a number in another place": {errors.New("1 of x"), errors.New("x of 1")},
	} {
		if a, b := reason.Of(pair[0]), reason.Of(pair[1]); a == b {
			t.Errorf("%s: %v and %v have the one reason %q", name, pair[0], pair[1], a)
		}
	}
}
