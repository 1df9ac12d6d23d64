// SPDX-License-Identifier: Apache-2.0
// Inlined functions that gcc writes no linkage name for, in all that can be around a function.
volatile int sink;

#define INLINED __attribute__((always_inline)) inline

namespace
{
INLINED void run()
{
	sink = sink + 1;
}

struct Hidden {
	INLINED void go()
	{
		sink = sink + 2;
	}
	static INLINED void alone()
	{
		sink = sink + 3;
	}
	struct Deep {
		INLINED int operator()(int n)
		{
			sink = sink + n;
			return n;
		}
		INLINED ~Deep()
		{
			sink = 4;
		}
	};
	void outside();
};

INLINED void Hidden::outside()
{
	sink = sink + 5;
}

template <typename T> struct Box {
	T value;
	INLINED void put(T more)
	{
		value = more;
		sink = sink + static_cast<int>(more);
	}
	template <typename U> INLINED void convert(U more)
	{
		sink = static_cast<int>(more);
	}
};

template <typename T> INLINED void instance(T more)
{
	sink = sink + static_cast<int>(more);
}

namespace inner
{
INLINED void walk()
{
	sink = sink + 6;
}
} // namespace inner
} // namespace

namespace scopes
{
static INLINED void still()
{
	sink = sink + 7;
}

namespace
{
struct Nested {
	struct Declared;
	INLINED void visit()
	{
		sink = sink * 2;
	}
};
struct Nested::Declared {
	INLINED void later()
	{
		sink = sink * 3;
	}
};
union Either {
	int number;
	INLINED void choose()
	{
		sink = sink * 4;
	}
};
} // namespace

inline namespace version
{
static INLINED void current()
{
	sink = sink * 5;
}
} // namespace version

struct Public {
	INLINED void shown()
	{
		sink = sink * 6;
	}
};

extern "C" INLINED void of_c()
{
	sink = sink * 7;
}
} // namespace scopes

static INLINED void plain()
{
	sink = sink + 8;
}

__attribute__((noinline)) void scopes_around(int n)
{
	struct Local {
		INLINED void meet()
		{
			sink = sink + 9;
		}
	} local;
	const auto lambda = [&](int more) __attribute__((always_inline))
	{
		sink = sink + more + n;
	};
	Hidden hidden;
	Hidden::Deep deep;
	Box<int> box;
	scopes::Nested nested;
	scopes::Nested::Declared declared;
	scopes::Either either;

	local.meet();
	lambda(3);
	run();
	hidden.go();
	Hidden::alone();
	hidden.outside();
	deep(4);
	box.put(3);
	box.convert<double>(2.0);
	instance<double>(2.0);
	instance<unsigned long>(3);
	inner::walk();
	scopes::still();
	nested.visit();
	declared.later();
	either.choose();
	scopes::current();
	scopes::Public().shown();
	scopes::of_c();
	plain();
}

int main()
{
	scopes_around(2);
	return 0;
}
