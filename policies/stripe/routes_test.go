package stripe_test

import (
	"testing"

	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/stripe"
)

// Source: https://docs.stripe.com/api
func TestARouteIsOneScope(t *testing.T) {
	t.Parallel()
	profiletest.Routes(t, stripe.Profile.Scopes[1], "https://api.stripe.com", []string{
		"GET /v1/customers", "GET /v1/customers/{customer}", "GET /v1/customers/search", "GET /v1/customers/{customer}/sources/{id}",
		"GET /v1/coupons", "GET /v1/coupons/{coupon}", "DELETE /v1/coupons/{coupon}", "GET /v1/promotion_codes/{promotion_code}",
		"GET /v1/plans/{plan}", "GET /v1/products/{id}", "POST /v1/payment_intents/{intent}/confirm", "GET /v1/charges/{charge}/refunds/{refund}",
		"GET /v1/checkout/sessions/{session}/line_items", "GET /v1/radar/value_lists/{value_list}", "GET /v1/issuing/cards/{card}",
		"POST /v1/invoices/{invoice}/finalize", "GET /v1/tax/calculations/{calculation}/line_items", "GET /v1/files/{file}",
		"GET /v1/apple_pay/domains/{domain}", "GET /v1/country_specs/{country}", "GET /v1/exchange_rates/{rate_id}", "GET /v1/balance",
	})
}
