globalThis.document = { documentElement: { lang: "en" }, hidden: false };
