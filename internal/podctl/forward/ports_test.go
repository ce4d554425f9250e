package forward

import (
	"net"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Port{
		"80": {Local: sameAsRemote, Number: 80}, "8080:80": {Local: 8080, Number: 80}, ":80": {Number: 80}, "0:80": {Number: 80},
		"http": {Local: sameAsRemote, Name: "http"}, ":http": {Name: "http"}, "8080:http": {Local: 8080, Name: "http"}, "65535": {Local: sameAsRemote, Number: 65535},
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "want [LOCAL:]REMOTE", ":": "want [LOCAL:]REMOTE", "80:": "want [LOCAL:]REMOTE", "1:2:3": "want [LOCAL:]REMOTE",
		"http:80": "the local port isn't a number", "-1:80": "the local port", "65536:80": "the local port",
		"0": "isn't from 1 to 65535", "-5": "isn't from 1", "80:65536": "isn't from 1", ":0": "isn't from 1",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

func TestAddresses(t *testing.T) {
	local := []address{{"tcp4", "127.0.0.1", true}, {"tcp6", "::1", true}}
	for text, want := range map[string][]address{
		"localhost": local, "127.0.0.2": {{"tcp4", "127.0.0.2", false}}, "0.0.0.0": {{"tcp4", "0.0.0.0", false}}, "::": {{"tcp6", "::", false}},
		"localhost,10.0.0.1": append(slices.Clone(local), address{"tcp4", "10.0.0.1", false}),
	} {
		if got, err := addressesOf(strings.Split(text, ",")); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, texts := range [][]string{nil, {""}, {"example.com"}, {"localhost", "127.0.0.256"}} {
		if err := CheckAddresses(texts); err == nil {
			t.Errorf("%q: no error", texts)
		}
	}
}

// Without --address only loopback addresses are listened on, all of them on one port; one of them is enough.
func TestListen(t *testing.T) {
	addresses, err := addressesOf([]string{"localhost"})
	if err != nil {
		t.Fatal(err)
	}
	listeners, port, err := listen(t.Context(), addresses, 0)
	if err != nil || len(listeners) == 0 {
		t.Fatal(err)
	}
	for _, l := range listeners {
		if at := l.Addr().(*net.TCPAddr); !at.IP.IsLoopback() || at.Port != port || port == 0 {
			t.Errorf("it listens on %s; want port %d of a loopback address", at, port)
		}
		defer l.Close()
	}
	if _, _, err := listen(t.Context(), addresses, port); err == nil {
		t.Error("a port that is in use on all addresses: no error")
	}
	none := []address{{"tcp4", "192.0.2.1", true}, addresses[0]}
	some, _, err := listen(t.Context(), none, 0)
	if err != nil || len(some) != 1 {
		t.Errorf("with one address that works: %d, %v", len(some), err)
	}
	_ = closeAll(some)
	none[0].optional = false
	if _, _, err := listen(t.Context(), none, 0); err == nil {
		t.Error("an address that was asked for doesn't work: no error")
	}
}
