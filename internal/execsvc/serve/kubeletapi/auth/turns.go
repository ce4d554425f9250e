package auth

import "github.com/podstream/podstream/internal/execsvc/machine/share"

const (
	// maxReviews is the limit of reviews under way in each pool.
	maxReviews = 64
	// maxReviewsOfNetwork is the limit for one IPv6 network, whose holder has any number of addresses: a quarter
	// remains for other networks.
	maxReviewsOfNetwork = 3 * maxReviews / 4
)

// turns are the pools of reviews under way. Each kind of caller has its own pool, so that a weaker kind can't block
// it: tokens that have not been reviewed yet, users by certificate, and users by token or without credentials.
type turns struct {
	tokens, certificates, users *share.Pool
}

func newTurns() turns {
	return turns{tokens: share.New(maxReviews), certificates: share.New(maxReviews), users: share.New(maxReviews)}
}

// turn is a request for a place in one of the pools, for these holders.
type turn struct {
	pool    *share.Pool
	holders []share.Holder
}

// take takes a place. It returns errBusy if there is none.
func (t turn) take() (leave func(), err error) {
	leave, err = t.pool.Take(t.holders...)
	if err != nil {
		return nil, errBusy
	}
	return leave, nil
}

// ofStranger returns the turn of a token from a remote address: an address has its own share within its network.
func (t turns) ofStranger(remote string) turn {
	address, network := peer(remote)
	holders := []share.Holder{{Name: "address " + address}}
	if network != address {
		holders = append(holders, share.Holder{Name: "network " + network, Most: maxReviewsOfNetwork, Fixed: true})
	}
	return turn{t.tokens, holders}
}

// ofUser returns the turn of a review of a user's permissions. Users without a name are counted by address.
func (t turns) ofUser(u *User, remote string) turn {
	switch {
	case u.Certificate:
		return turn{t.certificates, []share.Holder{{Name: u.Name}}}
	case u.Anonymous():
		turn := t.ofStranger(remote)
		turn.pool = t.users
		return turn
	default:
		return turn{t.users, []share.Holder{{Name: "user " + u.Name}}}
	}
}
