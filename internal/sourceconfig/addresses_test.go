package sourceconfig

import (
	"testing"

	"github.com/podstream/podstream/client"
)

// TestRelayAddresses: a relay has one address or several, in an order that is random unless it is given.
func TestRelayAddresses(t *testing.T) {
	for name, tc := range map[string]struct {
		in    inputs
		order client.Order
	}{
		"flags":                {inputs{flags: []string{"--relay-from=unix:///s,unix:///t"}}, ""},
		"flags with an order":  {inputs{flags: []string{"--relay-from=unix:///s,unix:///t", "--relay-address-order=listed"}}, client.Listed},
		"a file":               {inputs{main: sourcesHead + "relays: [{address: 'unix:///s,unix:///t', addressOrder: random}]\n"}, ""},
		"a file with an order": {inputs{main: sourcesHead + "relays: [{address: 'unix:///s,unix:///t', addressOrder: listed}]\n"}, client.Listed},
	} {
		plan, err := tc.in.plan(t)
		if err != nil {
			t.Fatal(err)
		}
		s := plan.Sources[len(plan.Sources)-1]
		if s.Name != "relay" || s.Location != "unix:///s,unix:///t" || s.Relay.Address != s.Location || s.Relay.AddressOrder != tc.order {
			t.Errorf("%s: the source is %+v with %+v; want two addresses and the order %q", name, s, s.Relay, tc.order)
		}
	}
}
